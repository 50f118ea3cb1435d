// The planner's cases: the committed mixes and clusters of tests/data/inss, and fresh ones drawn
// from a seed by the same rule — for judging what was never looked at while anything was tuned.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "apps/serving/load_case.h"

namespace hase::bench {

// "4_equal light", …: the six mixes on the two clusters.
struct CaseName {
  std::string cluster, mix;
  std::string text() const { return cluster + " " + mix; }
};
std::vector<CaseName> CommittedCases();

// Ends the program with the message where a file is missing or wrong.
serving::LoadedCase LoadCommitted(const CaseName& name);

// A mix of 3 to 14 services over all 24 zoo models, load and objectives by the rule of
// tests/data/inss/make_mixes.py, on 3 to 9 cards of one to four of seven types.
// `times` the cards, at the same load.
serving::LoadedCase DrawFresh(uint64_t seed, int times = 1);
std::string Describe(const serving::ServingCase& given);  // "4 services on 2 T4, 1 L4"

// `devices` cards of the four types of cluster_8_of_4 and `services` services cut from the mixed
// mix at moderate rates: for timing.
serving::LoadedCase Large(int devices, int services);

world::ServingLawParameters WorldLaw();  // data/w3_serving.yaml

template <typename T>
T Must(Result<T> result) {
  if (!result) {
    std::fputs(("bench_inss: " + result.error().message + "\n").c_str(), stderr);
    std::exit(1);
  }
  return std::move(*result);
}

}  // namespace hase::bench
