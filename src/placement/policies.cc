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
    {"least-loaded", "bound at arrival to the device with the least work left",
     "Harchol-Balter 2013", MakeLeastLoaded},
    {"least-allocated", "free device that keeps most memory and share free",
     "Kubernetes NodeResourcesFit", MakeLeastAllocated},
    {"most-allocated", "free device that it fills most", "Kubernetes NodeResourcesFit",
     MakeMostAllocated},
    {"sjf", "shortest first on its fastest free device", "Conway et al. 1967", MakeSjf},
    {"mct", "in order of arrival where it finishes first", "Maheswaran et al. 1999", MakeMct},
    {"lpt-mct", "longest first where it finishes first", "Graham 1969, Maheswaran et al. 1999",
     MakeLptMct},
    {"spt-mct", "shortest first where it finishes first", "Smith 1956, Maheswaran et al. 1999",
     MakeSptMct},
    {"min-min", "again and again the job that can finish first", "Ibarra and Kim 1977", MakeMinMin},
    {"edf", "earliest deadline first where it finishes first", "Liu and Layland 1973", MakeEdf},
    {"gavel-lp", "linear programme of the makespan, then longest first on the types it gives",
     "Narayanan et al. 2020", MakeGavelLp},
    {"hase",
     "list schedule on predictions, promises, backfill, sharing "
     "[objective=makespan|completion|fair]",
     "HASE paper", MakeHase},
};

}  // namespace

std::span<const PolicyRow> Policies() { return kPolicies; }

}  // namespace hase::placement
