// Stands in for placement/bounds.h: the work that fits, by each job's least time.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>
namespace hase::placement {
struct BoundClass {
  int count = 1;
  double sigma = 1;
};
struct BoundJob {
  double release_s = 0;
  bool divisible = false;
  int gang = 1;
  std::vector<double> p_s;
};
struct BoundInstance {
  std::vector<BoundClass> classes;
  std::vector<BoundJob> jobs;
};
inline double MakespanLowerBound(const BoundInstance& b, int) {
  double work = 0, room = 0;
  for (const auto& c : b.classes) room += c.count * c.sigma;
  for (const auto& j : b.jobs) work += j.gang * *std::min_element(j.p_s.begin(), j.p_s.end());
  return room > 0 ? work / room : 0;
}
inline double MeanFlowLowerBound(const BoundInstance& b) {
  double sum = 0;
  for (const auto& j : b.jobs) sum += *std::min_element(j.p_s.begin(), j.p_s.end());
  return b.jobs.empty() ? 0 : sum / static_cast<double>(b.jobs.size());
}
}  // namespace hase::placement
