// TableEstimator: the Estimator of `--estimates`: what estimates.csv says and nothing else, with
// slow-downs from slowdown.csv where given and the plain law (speed = share) where not.
//
// estimates.csv has no split of its error, so the spread between p10 and p90 is taken as an error
// shared by all batches of a job: sigma = ln(p90 / p10) / (2 · 1.2816), the wider of the two
// readings for a job of many batches. No interpolation between batches.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "cluster/device.h"
#include "cluster/slowdown_table.h"
#include "latency/estimator.h"
#include "model/model_table.h"

namespace hase::latency {

class TableEstimator : public Estimator {
 public:
  // Rows of models or device types that are not in the tables are skipped. References are not kept.
  static Result<TableEstimator> Parse(const std::string& name, std::string_view text,
                                      const model::ModelTable& models,
                                      std::span<const cluster::DeviceType> types);
  void SetSlowdowns(cluster::SlowdownTable table) { slowdowns_ = std::move(table); }
  void Set(ModelId model, DeviceTypeId type, int64_t batch, Estimate estimate);

  const Estimate* Find(ModelId model, DeviceTypeId type, int64_t batch) const override;
  std::string WhyNot(ModelId model, DeviceTypeId type, int64_t batch) const override;
  double Slowdown(const Tenant& tenant, DeviceTypeId type, std::span<const Tenant> others,
                  const ForeignLoad& foreign) const override;
  size_t size() const { return estimates_.size(); }

 private:
  std::string name_ = "the table";
  std::vector<std::string> model_names_, type_names_;
  std::map<std::tuple<ModelId, DeviceTypeId, int64_t>, Estimate> estimates_;
  cluster::SlowdownTable slowdowns_;
};

}  // namespace hase::latency
