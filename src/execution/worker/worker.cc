// The parent's side of a worker: fork, exec, packets, watchdog, reaping.
#include "execution/worker/worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace hase::execution {
namespace {

constexpr int kWorkerFd = 3;
constexpr int kCouldNotEnter = 121, kCouldNotExec = 122;

// Between fork and exec: async-signal-safe calls only.
[[noreturn]] void BecomeWorker(const Partition& partition, int socket, pid_t parent,
                               char* const* argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);  // it died before we asked to be told
  if (!partition.Enter()) _exit(kCouldNotEnter);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE}) ::signal(signal, SIG_DFL);
  // A terminal's Ctrl-C is for the engine, which ends its workers in order.
  setpgid(0, 0);
  const int null = open("/dev/null", O_RDWR);
  if (socket == kWorkerFd) {
    fcntl(socket, F_SETFD, 0);
  } else {
    dup2(socket, kWorkerFd);
  }
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  close_range(kWorkerFd + 1, ~0U, 0);
  execv("/proc/self/exe", argv);
  _exit(kCouldNotExec);
}

std::string HowItEnded(int status, bool out_of_memory) {
  if (out_of_memory) return "was killed by the kernel for using more memory than its limit";
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    if (signal == SIGALRM) return "did not load within its time limit";
    return fmt::format("was killed by signal {} ({})", signal, strsignal(signal));
  }
  const int code = WEXITSTATUS(status);
  if (code == kCouldNotEnter) return "could not enter its partition";
  if (code == kCouldNotExec) return "could not be started";
  return fmt::format("ended with status {} without a word", code);
}

}  // namespace

Nanos MonotonicNow() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return Nanos(t.tv_sec * 1'000'000'000 + t.tv_nsec);
}

Worker::Worker(const Partition& partition, pid_t pid, int fd)
    : partition_(&partition), pid_(pid), fd_(fd), heard_(MonotonicNow()) {}

Worker::Worker(Worker&& other) noexcept
    : partition_(other.partition_),
      pid_(std::exchange(other.pid_, -1)),
      fd_(std::exchange(other.fd_, -1)),
      heard_(other.heard_),
      longest_gap_(other.longest_gap_),
      running_(other.running_) {}

Worker& Worker::operator=(Worker&& other) noexcept {
  if (this == &other) return *this;
  End();
  partition_ = other.partition_;
  pid_ = std::exchange(other.pid_, -1);
  fd_ = std::exchange(other.fd_, -1);
  heard_ = other.heard_;
  longest_gap_ = other.longest_gap_;
  running_ = other.running_;
  return *this;
}

Worker::~Worker() { End(); }

Result<Worker> Worker::Spawn(const Partition& partition, LoadRequest load) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
    return Unavailable(fmt::format("cannot make a socket pair: {}", std::strerror(errno)));
  for (const int fd : sockets) {
    const int size = kMaxPacket;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  }
  std::string started = std::to_string(MonotonicNow().value());
  std::array<std::string, 4> words = {"hase", "worker", "--started", started};
  std::array<char*, 5> argv = {words[0].data(), words[1].data(), words[2].data(), words[3].data(),
                               nullptr};
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) BecomeWorker(partition, sockets[1], parent, argv.data());
  close(sockets[1]);
  if (pid < 0) {
    close(sockets[0]);
    return Unavailable(fmt::format("cannot start a worker: {}", std::strerror(errno)));
  }
  Worker worker(partition, pid, sockets[0]);
  if (load.threads == 0) load.threads = static_cast<int>(partition.cores().size());
  load.duty = partition.duty();
  if (partition.limits_memory()) load.memory_limit = Bytes(0);  // the kernel holds it
  HASE_RETURN_IF_ERROR(worker.Send(load));
  return worker;
}

Status Worker::Send(const Request& request) {
  const std::string text = Encode(request);
  if (send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()))
    return {};
  if (errno == EPIPE || errno == ECONNRESET) return {};  // Receive tells why it is gone
  return Unavailable(fmt::format("a worker cannot be reached: {}", std::strerror(errno)));
}

Nanos Worker::Deadline() const {
  const Nanos allowed = running_ ? std::max(longest_gap_ * 10, FromSeconds(30))
                                 : FromSeconds(60 + 60 / ToFraction(partition_->quota()));
  return heard_ + allowed;
}

std::optional<Message> Worker::Receive(Nanos timeout) {
  pollfd ready = {.fd = fd_, .events = POLLIN, .revents = 0};
  const Nanos until = MonotonicNow() + timeout;
  for (;;) {
    const Nanos now = MonotonicNow();
    const Nanos left = std::max(Nanos(0), std::min(until, Deadline()) - now);
    const int count = poll(&ready, 1, static_cast<int>(std::min(ToMillis(left) + 1, 1e9)));
    if (count > 0) break;
    if (count < 0 && errno == EINTR) continue;
    if (MonotonicNow() >= Deadline())
      return Post(fmt::format("was silent for {:.0f} s", ToSeconds(MonotonicNow() - heard_)));
    if (MonotonicNow() >= until) return std::nullopt;
  }
  std::string text(kMaxPacket, '\0');
  ssize_t size = recv(fd_, text.data(), text.size(), MSG_DONTWAIT);
  // A worker that ended with requests unread resets the connection; what it said before is there.
  if (size < 0 && errno == ECONNRESET) size = recv(fd_, text.data(), text.size(), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (size <= 0) return Post("");
  auto message = DecodeMessage(std::string_view(text).substr(0, static_cast<size_t>(size)));
  if (!message) return Post("sent nonsense (" + message.error().message + ")");
  const Nanos now = MonotonicNow();
  if (running_) longest_gap_ = std::max(longest_gap_, now - heard_);
  // The first batch is the measure of those that follow.
  if (std::holds_alternative<Chunk>(*message) || std::holds_alternative<Beat>(*message)) {
    if (!running_) longest_gap_ = now - heard_;
    running_ = true;
  }
  heard_ = now;
  return std::move(*message);
}

Failure Worker::Post(std::string_view what) {
  const bool silent = !what.empty();
  if (silent) kill(pid_, SIGKILL);
  const pid_t pid = std::exchange(pid_, -1);
  int status = 0;
  // The socket's end is closed, so the process is ending; should it linger, it is helped.
  if (waitpid(pid, &status, WNOHANG) == 0) {
    for (int i = 0; i < 200 && waitpid(pid, &status, WNOHANG) == 0; ++i) usleep(5000);
    if (kill(pid, 0) == 0) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
    }
  }
  const bool out_of_memory = partition_->ran_out_of_memory();
  return {.kind = ErrorKind::kUnavailable,
          .why = fmt::format("the worker {}",
                             silent ? std::string(what) : HowItEnded(status, out_of_memory)),
          .out_of_memory = out_of_memory};
}

void Worker::End(Nanos grace) {
  if (pid_ > 0) {
    kill(pid_, grace > kNoTime ? SIGTERM : SIGKILL);
    const Nanos until = MonotonicNow() + grace;
    while (waitpid(pid_, nullptr, WNOHANG) == 0) {
      if (MonotonicNow() >= until) kill(pid_, SIGKILL);
      usleep(1000);
    }
  }
  pid_ = -1;
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

Result<WorkerRun> RunWorker(const Partition& partition, const LoadRequest& load,
                            std::vector<RunRequest> runs) {
  if (runs.empty()) return Usage("a worker was given nothing to run");
  runs.back().then_exit = true;
  HASE_ASSIGN_OR_RETURN(Worker worker, Worker::Spawn(partition, load));
  for (const RunRequest& run : runs) HASE_RETURN_IF_ERROR(worker.Send(run));
  WorkerRun result;
  for (;;) {
    auto message = worker.Receive(FromSeconds(3600));
    if (!message) return Unavailable("a worker did not end within an hour");
    if (auto* loaded = std::get_if<Loaded>(&*message)) result.loaded = *loaded;
    if (auto* chunk = std::get_if<Chunk>(&*message)) result.chunks.push_back(std::move(*chunk));
    if (auto* profile = std::get_if<Profile>(&*message)) result.nodes = std::move(profile->nodes);
    if (auto* failure = std::get_if<Failure>(&*message))
      return std::unexpected(Error{failure->kind, fmt::format("{}: {}", load.model, failure->why)});
    if (auto* done = std::get_if<Done>(&*message)) {
      result.peak_run = done->peak;
      return result;
    }
  }
}

}  // namespace hase::execution
