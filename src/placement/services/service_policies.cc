#include "placement/services/service_policies.h"

#include <fmt/core.h>

#include "placement/services/rivals.h"

namespace hase::placement {
namespace {

constexpr ServicePolicyRow kRows[] = {
    {"inss", "placement, share and batch together, interference counted both ways",
     "HASE; two stages after InSS",
     [](ServiceObjective o) -> std::unique_ptr<ServicePolicy> {
       InssOptions options;
       options.objective = o;
       return std::make_unique<InssPolicy>(options);
     }},
    {"dedicated", "one device per service, the rest time-sliced, replicas on spare devices",
     "Kubernetes device plug-in",
     [](ServiceObjective) -> std::unique_ptr<ServicePolicy> {
       return std::make_unique<DedicatedPolicy>();
     }},
    {"equal-share", "every device divided equally among the services dealt to it",
     "Kubernetes device plug-in, MPS replicas",
     [](ServiceObjective) -> std::unique_ptr<ServicePolicy> {
       return std::make_unique<EqualSharePolicy>();
     }},
    {"gpulet", "two partitions per device from a fixed list, shared in time",
     "Choi et al., ATC 2022",
     [](ServiceObjective o) -> std::unique_ptr<ServicePolicy> {
       return std::make_unique<GpuletPolicy>(o);
     }},
    {"igniter", "shares grown in steps of 2.5 % until every objective holds, fewest devices",
     "Xu et al., TPDS 2023",
     [](ServiceObjective o) -> std::unique_ptr<ServicePolicy> {
       return std::make_unique<IgniterPolicy>(o);
     }},
    {"parvagpu", "MIG slices with several processes of one model inside", "Lee et al., SC 2024",
     [](ServiceObjective o) -> std::unique_ptr<ServicePolicy> {
       return std::make_unique<ParvaGpuPolicy>(o);
     }},
};

}  // namespace

std::span<const ServicePolicyRow> ServicePolicies() { return kRows; }

Result<std::unique_ptr<ServicePolicy>> MakeServicePolicy(std::string_view name,
                                                         ServiceObjective objective) {
  std::string known;
  for (const auto& row : kRows) {
    if (row.name == name) return row.make(objective);
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return Usage(fmt::format("unknown service policy '{}' (known: {})", name, known));
}

}  // namespace hase::placement
