// The `hase` binary: parses the command line by the table in commands.cc and turns Results into
// exit statuses. Everything that is shared between rooms is built here or in the commands and
// passed in.
#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "apps/cli/command.h"
#include "apps/cli/help.h"

namespace hase {
namespace {

// A file opened by a command must not take the number of a closed standard stream: what is printed
// would go into it. Writing to such a stream fails.
void OccupyClosedStreams() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (fcntl(stream, F_GETFD) < 0) open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY);
  }
}

// No error of ours arrives as an exception, but libraries throw: fmt where a stream cannot be
// written, JSON, memory.
Result<int> Guarded(const cli::Action& action) {
  try {
    return action();
  } catch (const std::exception& e) {
    return Unavailable(e.what());
  }
}

}  // namespace
}  // namespace hase

int main(int argc, char** argv) {
  using namespace hase;
  OccupyClosedStreams();
  CLI::App app{
      "HASE schedules DNN inference on clusters of unlike GPUs: it predicts each kernel's time on "
      "each device under the load that is on it now, and decides which device, what share of it, "
      "what batch size, and when.",
      "hase"};
  app.formatter(std::make_shared<cli::HelpFormatter>());
  app.require_subcommand(1);
  app.set_version_flag("--version", HASE_VERSION);
  std::vector<std::pair<CLI::App*, cli::Action>> actions;
  for (const auto& row : cli::Commands()) {
    CLI::App* command = app.add_subcommand(std::string(row.name), std::string(row.help));
    if (row.help.empty()) command->group("");  // not for people: hidden
    if (!row.examples.empty()) command->footer("Examples:\n" + std::string(row.examples));
    actions.emplace_back(command, row.setup(*command));
  }
  if (argc > 1 && argv[1][0] != '-' &&
      std::ranges::none_of(cli::Commands(), [&](const auto& row) { return row.name == argv[1]; })) {
    fmt::print(stderr, "hase: unknown command '{}'; see hase --help\n", argv[1]);
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    fmt::print(stderr, "hase: {}; see --help\n", e.what());
    return 2;
  }
  for (const auto& [command, action] : actions) {
    if (!command->parsed()) continue;
    const auto status = Guarded(action);
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
      fmt::print(stderr, "hase: cannot write to standard output (disk full or closed?)\n");
      return 1;
    }
    if (status) return *status;
    // One line, whatever names a broken file holds.
    std::string message = status.error().message;
    std::ranges::replace_if(message, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
    fmt::print(stderr, "hase {}: {}\n", command->get_name(), message);
    return ExitStatus(status.error().kind);
  }
  return 2;
}
