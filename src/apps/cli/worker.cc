// hase worker (hidden): the process that runs one model, started by HASE itself with its socket as
// file descriptor 3. See execution/worker/protocol.h.
#include <sys/stat.h>

#include <memory>

#include "apps/cli/commands.h"
#include "execution/worker/worker.h"

namespace hase::cli {

Action SetUpWorker(CLI::App& command) {
  auto started = std::make_shared<int64_t>(0);  // shared: the action outlives this function
  command.add_option("--started", *started, "When the parent forked, CLOCK_MONOTONIC nanoseconds")
      ->required();
  return [started]() -> Result<int> {
    struct stat status{};
    if (fstat(3, &status) != 0 || !S_ISSOCK(status.st_mode))
      return Usage("is started by HASE itself, not by hand");
    return execution::WorkerMain(3, Nanos(*started));
  };
}

}  // namespace hase::cli
