// The table of commands, in the order in which `hase --help` shows them.
#include "apps/cli/commands.h"

namespace hase::cli {
namespace {

constexpr Command kCommands[] = {
    {"doctor", "Check what this machine offers HASE and what is missing", "  hase doctor --json",
     SetUpDoctor},
    {"worker", "", "", SetUpWorker},
};

}  // namespace

std::span<const Command> Commands() { return kCommands; }

}  // namespace hase::cli
