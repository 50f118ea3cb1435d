// The table of policies: name, one-line help, source, factory. Written out by hand, since static
// self-registration is lost when an archive member is not referenced.
#include "placement/policies/factories.h"
#include "placement/policy.h"

namespace hase::placement {
namespace {

constexpr PolicyRow kPolicies[] = {
    {"round-robin", "cyclic over devices at arrival, first in first out per device",
     "HASE paper's baseline", MakeRoundRobin},
    {"random", "in order of arrival on a free device drawn at random [seed=]", "Mitzenmacher 2001",
     MakeRandom},
    {"fifo", "one queue, its head takes the next free device", "Slurm sched/builtin", MakeFifo},
    {"mct", "in order of arrival where it finishes first", "Maheswaran et al. 1999", MakeMct},
};

}  // namespace

std::span<const PolicyRow> Policies() { return kPolicies; }

}  // namespace hase::placement
