// The table of commands, in the order in which `hase --help` shows them.
#include "apps/cli/commands.h"

namespace hase::cli {
namespace {

constexpr Command kCommands[] = {
    {"doctor", "Check what this machine offers HASE and what is missing", "  hase doctor --json",
     SetUpDoctor},
    {"explain", "Tell in numbers why a job waits, waited or runs where it does",
     "  hase explain j00012 --decisions decisions.jsonl", SetUpExplain},
    {"simulate", "Run policies on a simulated cluster, beside a lower bound",
     "  hase simulate --cluster c.yaml --jobs j.csv --policy round-robin,hase --world W3 --json\n"
     "  hase simulate --cluster c.yaml --generate poisson,jobs=500,load=0.95 --policy hase",
     SetUpSimulate},
    {"worker", "", "", SetUpWorker},
};

}  // namespace

std::span<const Command> Commands() { return kCommands; }

}  // namespace hase::cli
