// Geometric means by name.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

namespace hase::bench {

class Means {
 public:
  void Add(const std::string& name, double value) {
    sums_[name] += std::log(std::max(1e-9, value));
    ++counts_[name];
  }
  bool Has(const std::string& name) const { return counts_.contains(name); }
  double Of(const std::string& name) const {
    const auto found = counts_.find(name);
    return found == counts_.end() ? 0 : std::exp(sums_.at(name) / found->second);
  }

 private:
  std::map<std::string, double> sums_;
  std::map<std::string, int> counts_;
};

}  // namespace hase::bench
