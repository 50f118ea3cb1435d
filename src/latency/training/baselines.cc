#include "latency/training/baselines.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace hase::latency {
namespace {

constexpr double kOtherVendor = 10;
constexpr int64_t kLeastSourceRows = 50;

bool OfGroup(const Group& g, const TableRow& r) {
  return ToString(r.op_class) == g.op_class && ToString(r.precision) == g.precision;
}

// The nearest card with rows of the group's class and precision, or -1.
int SourceCard(const Tables& tables, const Table& table, size_t holdout, const Group& g) {
  std::vector<int64_t> present(tables.devices.size(), 0);
  for (const auto& r : table.rows) present[r.device] += r.bucket >= 2 && OfGroup(g, r) ? 1 : 0;
  const auto& target = tables.devices[holdout];
  double nearest = 1e9;
  int source = -1;
  for (size_t d = 0; d < tables.devices.size(); ++d) {
    if (d == holdout || present[d] < kLeastSourceRows) continue;
    const auto& spec = tables.devices[d];
    const double distance = std::abs(std::log(spec.peak_tflops[0] / target.peak_tflops[0])) +
                            std::abs(std::log(spec.bandwidth_gb_s / target.bandwidth_gb_s)) +
                            (spec.vendor == target.vendor ? 0 : kOtherVendor);
    if (distance < nearest) {
      nearest = distance;
      source = static_cast<int>(d);
    }
  }
  return source;
}

double Ape(double log_error) { return std::abs(std::exp(-log_error) - 1); }

void Fill(const Table& table, int source, std::span<const ScoredRow* const> members, Group& g) {
  std::map<uint32_t, float> known;  // kernel -> log ratio on the source card
  std::vector<float> ratios;
  for (const auto& r : table.rows) {
    if (r.device != source || !OfGroup(g, r)) continue;
    known[r.kernel] = r.log_ratio;
    if (r.bucket >= 2) ratios.push_back(r.log_ratio);
  }
  const auto middle = ratios.begin() + static_cast<int64_t>(ratios.size() / 2);
  std::ranges::nth_element(ratios, middle);
  Baselines& b = g.baselines;
  for (const ScoredRow* s : members) {
    const TableRow& r = table.rows[s->row];
    b.scaled_roofline_mape += Ape(r.log_ratio - *middle);
    const auto it = known.find(r.kernel);
    if (it == known.end()) continue;
    ++b.same_kernel_rows;
    b.same_kernel_mape += Ape(r.log_ratio - it->second);
    b.uncalibrated_on_same += Ape(s->uncalibrated);
    b.calibrated_on_same += Ape(s->log_error);
  }
  b.scaled_roofline_mape /= static_cast<double>(std::max<size_t>(1, members.size()));
  const auto same = static_cast<double>(std::max<int64_t>(1, b.same_kernel_rows));
  b.same_kernel_mape /= same;
  b.uncalibrated_on_same /= same;
  b.calibrated_on_same /= same;
}

// Mean over op classes of means over their groups.
class ClassMean {
 public:
  void Add(const std::string& op_class, double value) {
    sums_[op_class].first += value;
    sums_[op_class].second += 1;
  }
  double Value() const {
    double sum = 0;
    for (const auto& [op_class, s] : sums_) sum += s.first / s.second;
    return sums_.empty() ? 0 : sum / static_cast<double>(sums_.size());
  }

 private:
  std::map<std::string, std::pair<double, double>> sums_;
};

}  // namespace

void AddBaselines(const Tables& tables, size_t holdout, Evaluation& e) {
  ClassMean mape, uncalibrated, scaled, same, uncalibrated_same, calibrated_same;
  for (Group& g : e.groups) {
    const Table* table = nullptr;
    std::vector<const ScoredRow*> members;
    for (const auto& s : e.scored) {
      const Table& of = tables.tables[s.table];
      if (of.data_set != g.data_set || !OfGroup(g, of.rows[s.row])) continue;
      table = &of;
      members.push_back(&s);
    }
    mape.Add(g.op_class, g.mape);
    uncalibrated.Add(g.op_class, g.uncalibrated_mape);
    if (table == nullptr) continue;
    const int source = SourceCard(tables, *table, holdout, g);
    if (source < 0) continue;
    g.baselines.source_card = tables.devices[static_cast<size_t>(source)].name;
    Fill(*table, source, members, g);
    scaled.Add(g.op_class, g.baselines.scaled_roofline_mape);
    if (g.baselines.same_kernel_rows == 0) continue;
    same.Add(g.op_class, g.baselines.same_kernel_mape);
    uncalibrated_same.Add(g.op_class, g.baselines.uncalibrated_on_same);
    calibrated_same.Add(g.op_class, g.baselines.calibrated_on_same);
  }
  e.held_out = {mape.Value(), uncalibrated.Value(),      scaled.Value(),
                same.Value(), uncalibrated_same.Value(), calibrated_same.Value()};
}

}  // namespace hase::latency
