// The rival service policies; each lives in the file of its name, with its source.
#pragma once

#include "placement/services/inss.h"

namespace hase::placement {

class DedicatedPolicy : public ServicePolicy {
 public:
  ServicePlan Decide(const ServiceView& view) override;
};
class EqualSharePolicy : public ServicePolicy {
 public:
  ServicePlan Decide(const ServiceView& view) override;
};
class GpuletPolicy : public ServicePolicy {
 public:
  explicit GpuletPolicy(ServiceObjective objective) : objective_(objective) {}
  ServicePlan Decide(const ServiceView& view) override;

 private:
  ServiceObjective objective_;
};
class IgniterPolicy : public ServicePolicy {
 public:
  explicit IgniterPolicy(ServiceObjective objective) : objective_(objective) {}
  ServicePlan Decide(const ServiceView& view) override;

 private:
  ServiceObjective objective_;
};
class ParvaGpuPolicy : public ServicePolicy {
 public:
  explicit ParvaGpuPolicy(ServiceObjective objective) : objective_(objective) {}
  ServicePlan Decide(const ServiceView& view) override;

 private:
  ServiceObjective objective_;
};

}  // namespace hase::placement
