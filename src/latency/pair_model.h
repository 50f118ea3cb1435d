// PairModel: how much slower a job runs beside another on one card, from measured pairs alone: for
// jobs without a graph, whose demands nobody can compute.
//
// Every job has a descriptor: how sensitive it is, how hard it presses, and `rank` numbers of each
// that multiply pairwise (what one wants is what the other uses, or not):
//   log slowdown(i beside j) = mean + sensitivity_i + pressure_j + u_i · v_j
// fitted by alternating ridge regressions with a robust loss. A job's descriptor comes from its
// other pairs; a job met in none is average. The rank is chosen by cross-validation inside the
// pairs given.
//
// Source of the form: low-rank completion of performance matrices, as in Paragon (ASPLOS 2013) and
// Quasar (ASPLOS 2014).
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

namespace hase::latency {

struct PairObservation {
  std::string job, beside;
  double slowdown = 1;  // of `job`: solo throughput / throughput beside the other
};

class PairModel {
 public:
  static constexpr int kGreatestRank = 3;
  static PairModel Fit(std::span<const PairObservation> pairs);
  static PairModel FitWithRank(std::span<const PairObservation> pairs, int rank);

  double Slowdown(const std::string& job, const std::string& beside) const;  // >= 1
  int rank() const { return rank_; }
  bool Knows(const std::string& job) const { return sensitive_.contains(job); }

 private:
  using Descriptors = std::map<std::string, std::vector<double>, std::less<>>;
  int rank_ = 0;
  double mean_ = 0;
  Descriptors sensitive_, pressing_;  // [own offset, u or v]
};

// A fold of 5 for an unordered pair on a card: both directions and both orders fall together.
int PairFold(std::string_view card, std::string_view a, std::string_view b);

}  // namespace hase::latency
