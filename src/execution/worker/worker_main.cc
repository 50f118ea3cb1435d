// The worker's own side: one session, run in batches, talking over a socket. It never computes what
// it was not asked to, and ends when its parent's end of the socket closes.
#include <fmt/format.h>
#include <malloc.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <fstream>
#include <string>

#include "execution/worker/worker.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HASE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HASE_SANITIZED 1
#endif
#endif

namespace hase::execution {
namespace {

namespace ort = model::ort;

// A line "Name:   123 kB" of /proc/self/status.
Bytes StatusLine(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(name)) continue;
    const size_t digits = line.find_first_of("0123456789");
    int64_t kib = 0;
    if (digits != std::string::npos)
      std::from_chars(line.data() + digits, line.data() + line.size(), kib);
    return Bytes(kib * 1024);
  }
  return Bytes(0);
}

// The greatest resident size so far starts anew.
void ForgetPeak() { std::ofstream("/proc/self/clear_refs") << "5"; }

Nanos ProcessorTime() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return Nanos(t.tv_sec * 1'000'000'000 + t.tv_nsec);
}

void Sleep(Nanos time) {
  const timespec t = {.tv_sec = time.value() / 1'000'000'000,
                      .tv_nsec = time.value() % 1'000'000'000};
  nanosleep(&t, nullptr);
}

// So that a model cannot take the machine down: address space for twice the machine's memory, or
// the limit beyond what is mapped now (and some for stacks and arenas that are only
// reserved). Sanitizers and CUDA map terabytes they never
// touch, so they go without.
void LimitMemory([[maybe_unused]] const LoadRequest& load) {
#ifndef HASE_SANITIZED
  if (load.provider != ort::Provider::kCpu) return;
  const int64_t machine = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE);
  const int64_t now = StatusLine("VmSize:").value();
  const int64_t limit = load.memory_limit > Bytes(0)
                            ? now + load.memory_limit.value() + MiB(256).value()
                            : 2 * machine;
  const rlimit bound = {.rlim_cur = static_cast<rlim_t>(limit), .rlim_max = RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &bound);
#endif
  const rlimit no_core = {.rlim_cur = 0, .rlim_max = 0};
  setrlimit(RLIMIT_CORE, &no_core);
}

bool SpeaksOfMemory(std::string_view why) {
  for (const char* word : {"out of memory", "bad_alloc", "allocate memory", "Failed to allocate",
                           "BFCArena", "CUDA_ERROR_OUT_OF_MEMORY"})
    if (why.find(word) != std::string_view::npos) return true;
  return false;
}

Nanos Quantile(const std::vector<Nanos>& sorted, double p) {
  return sorted[static_cast<size_t>(p * static_cast<double>(sorted.size() - 1) + 0.5)];
}

class Server {
 public:
  Server(int fd, Nanos started) : fd_(fd), started_(started), baseline_(StatusLine("VmRSS:")) {}

  int Serve() {
    while (!stop_) {
      if (queue_.empty() && !Take(/*wait=*/true)) return 0;  // the parent is gone
      if (stop_) break;
      const Request request = std::move(queue_.front());
      queue_.pop_front();
      const Status status = std::holds_alternative<LoadRequest>(request)
                                ? Load(std::get<LoadRequest>(request))
                                : Run(std::get<RunRequest>(request));
      if (!status) {
        Send(Failure{.kind = status.error().kind,
                     .why = status.error().message,
                     .out_of_memory = SpeaksOfMemory(status.error().message)});
        return 1;
      }
    }
    return Finish();
  }

 private:
  void Send(const Message& message) {
    const std::string text = Encode(message);
    if (send(fd_, text.data(), text.size(), MSG_NOSIGNAL) < 0) _exit(1);
    spoke_ = MonotonicNow();
  }

  // Takes one packet into the queue; false: the parent is gone, or (not waiting) nothing is there.
  // A stop overtakes what waits.
  bool Take(bool wait) {
    std::string text(65536, '\0');
    const ssize_t size = recv(fd_, text.data(), text.size(), wait ? 0 : MSG_DONTWAIT);
    if (size == 0 && !wait) _exit(1);
    if (size <= 0) return false;
    auto request = DecodeRequest(std::string_view(text).substr(0, static_cast<size_t>(size)));
    if (!request) _exit(1);  // our own binary does not send this
    stop_ = stop_ || std::holds_alternative<StopRequest>(*request);
    queue_.push_back(std::move(*request));
    return true;
  }

  Status Load(const LoadRequest& load) {
    load_ = load;
    LimitMemory(load);
    alarm(static_cast<unsigned>(std::max(0, load.time_limit_s)));
    const Nanos begin = MonotonicNow();
    ort::SessionOptions options;
    options.intra_threads = load.threads;
    options.optimisation = load.optimisation;
    options.provider = load.provider;
    options.lean = true;
    options.cuda_device = load.cuda_device;
    options.dimensions = load.dimensions;
    if (!load.profile_prefix.empty()) options.profile_prefix = load.profile_prefix;
    HASE_ASSIGN_OR_RETURN(ort::Session session, ort::Session::Create(load.model, options));
    const Nanos created = MonotonicNow();
    HASE_RETURN_IF_ERROR(session.Prepare(load.batch));
    session_.emplace(std::move(session));
    alarm(0);
    const Nanos ready = MonotonicNow();
    Rest(ready - begin);
    Loaded loaded{.load = MonotonicNow() - started_,
                  .create = created - begin,
                  .warm_up = {},
                  .baseline = baseline_,
                  .peak = StatusLine("VmHWM:")};
    ForgetPeak();
    const Nanos warm = MonotonicNow();
    for (int i = 0; i < load.warm_up; ++i) {
      HASE_ASSIGN_OR_RETURN(const Nanos took, session_->Run());
      Rest(took);
    }
    loaded.warm_up = MonotonicNow() - warm;
    Send(loaded);
    return {};
  }

  Status Run(const RunRequest& run) {
    if (!session_) return Usage("a worker was asked to run before it loaded");
    const int64_t step = run.chunk_inputs > 0 ? run.chunk_inputs : run.inputs;
    for (int64_t done = 0; done < run.inputs && !stop_; done += step) {
      HASE_RETURN_IF_ERROR(RunChunk(std::min(step, run.inputs - done), run.want_times));
      while (Take(/*wait=*/false)) {
      }
    }
    stop_ = stop_ || run.then_exit;
    return {};
  }

  Status RunChunk(int64_t inputs, bool want_times) {
    const int64_t batches = (inputs + load_.batch - 1) / load_.batch;
    std::vector<Nanos> times;
    times.reserve(static_cast<size_t>(batches));
    const Nanos begin = MonotonicNow(), processor = ProcessorTime();
    for (int64_t i = 0; i < batches; ++i) {
      const Nanos start = MonotonicNow();
      HASE_ASSIGN_OR_RETURN(const Nanos took, session_->Run());
      Rest(took);
      times.push_back(MonotonicNow() - start);
      if (MonotonicNow() - spoke_ > FromMillis(500)) Send(Beat{});
    }
    Chunk chunk{.inputs = inputs,
                .batches = batches,
                .busy = MonotonicNow() - begin,
                .processor = ProcessorTime() - processor,
                .p10 = {},
                .p50 = {},
                .p90 = {}};
    if (want_times)
      chunk.times.assign(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(
                                                            std::min(times.size(), kMaxTimes)));
    std::sort(times.begin(), times.end());
    chunk.p10 = Quantile(times, 0.1);
    chunk.p50 = Quantile(times, 0.5);
    chunk.p90 = Quantile(times, 0.9);
    Send(chunk);
    return {};
  }

  // The duty-cycle limiter: after `busy`, idle long enough that busy is `duty` of the whole.
  void Rest(Nanos busy) const {
    const double duty = ToFraction(load_.duty);
    if (duty < 1) Sleep(Scale(busy, (1 - duty) / duty));
  }

  int Finish() {
    if (session_ && !load_.profile_prefix.empty()) {
      auto nodes = session_->EndProfiling(load_.warm_up);
      if (!nodes) {
        Send(Failure{.kind = nodes.error().kind, .why = nodes.error().message});
        return 1;
      }
      Send(Profile{std::move(*nodes)});
    }
    Send(Done{.peak = StatusLine("VmHWM:")});
    return 0;
  }

  int fd_;
  Nanos started_;
  Bytes baseline_;
  LoadRequest load_;
  std::optional<ort::Session> session_;
  Nanos spoke_;
  std::deque<Request> queue_;
  bool stop_ = false;
};

}  // namespace

int WorkerMain(int fd, Nanos started) {
  // Freed weights go back to the system at once: by default glibc learns from the first large free
  // to keep blocks of that size, and a model that is repacked while loading stays twice as large.
  mallopt(M_MMAP_THRESHOLD, 256 << 10);
  mallopt(M_TRIM_THRESHOLD, 1 << 20);
  Server server(fd, started);
  const int status = server.Serve();
  // What ONNX Runtime's destructors would tidy up, the kernel does faster.
  _exit(status);
}

}  // namespace hase::execution
