// LowerInChild: Lower behind a fork, so that a file that crashes ONNX Runtime, exhausts memory or
// never ends costs an error message. The child answers over a pipe: one byte for the outcome, then
// the kernel list or the message.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "model/kernels_json.h"
#include "model/lower.h"

namespace hase::model {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kSeconds = 120;
[[maybe_unused]] constexpr rlim_t kAddressSpace = rlim_t{24} << 30;
constexpr char kDone = 'k';

bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

std::string ReadAll(int fd) {
  std::string text;
  char block[1 << 16];
  while (true) {
    const ssize_t n = ::read(fd, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(block, static_cast<size_t>(n));
  }
}

[[noreturn]] void Child(int out, const fs::path& onnx, const LowerOptions& options) {
  // The default dispositions, so that a crash ends the child whatever the parent has set up.
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGALRM, SIGPIPE}) {
    std::signal(signal, SIG_DFL);
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(HASE_SANITIZED)
  const rlimit memory{kAddressSpace, kAddressSpace};
  ::setrlimit(RLIMIT_AS, &memory);
#endif
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::alarm(kSeconds);
  const auto graph = Lower(onnx, options);
  std::string answer;
  if (graph) {
    answer = kDone + WriteKernelsJson(*graph);
  } else {
    answer = static_cast<char>('0' + static_cast<int>(graph.error().kind)) + graph.error().message;
  }
  const bool written = WriteAll(out, answer);
  ::_exit(written ? 0 : 1);
}

std::string WhyItDied(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("exit status {}", WEXITSTATUS(status));
  if (WTERMSIG(status) == SIGALRM) return fmt::format("no answer within {} s", kSeconds);
  return strsignal(WTERMSIG(status));
}

}  // namespace

Result<Graph> LowerInChild(const fs::path& onnx, const LowerOptions& options) {
  // Made here, so that it goes whatever becomes of the child.
  HASE_ASSIGN_OR_RETURN(const ScratchFolder scratch, ScratchFolder::Create());
  LowerOptions with_scratch = options;
  with_scratch.scratch = scratch.path();
  int ends[2];
  if (::pipe(ends) != 0) return Unavailable(fmt::format("pipe: {}", std::strerror(errno)));
  const pid_t child = ::fork();
  if (child < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    return Unavailable(fmt::format("fork: {}", std::strerror(errno)));
  }
  if (child == 0) {
    ::close(ends[0]);
    Child(ends[1], onnx, with_scratch);
  }
  ::close(ends[1]);
  const std::string answer = ReadAll(ends[0]);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || answer.empty()) {
    return Invalid(
        fmt::format("{}: ONNX Runtime gave up on this model ({}); the file is probably "
                    "damaged",
                    onnx.string(), WhyItDied(status)));
  }
  if (answer[0] == kDone) return ReadKernelsJson(std::string_view(answer).substr(1), onnx.string());
  return std::unexpected(Error{static_cast<ErrorKind>(answer[0] - '0'), answer.substr(1)});
}

}  // namespace hase::model
