// hase doctor: what HASE finds on this machine, and what to do about what it does not find.
#include <fmt/core.h>

#include "apps/cli/commands.h"

namespace hase::cli {

Action SetUpDoctor(CLI::App& command) {
  struct Flags {
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();  // shared: the action outlives this function
  command.add_flag("--json", flags->json, "Print JSON");
  return [flags]() -> Result<int> {
    fmt::print("hase: nothing checked yet\n");
    return 0;
  };
}

}  // namespace hase::cli
