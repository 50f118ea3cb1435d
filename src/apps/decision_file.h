// Decision records on disk: JSON Lines, one decision a line with its numbers (docs/formats.md,
// "Decision records"). `hase simulate --decisions` and `hase run` write them, `hase explain` reads.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/device.h"
#include "execution/engine.h"

namespace hase::apps {

struct StoredCandidate {
  std::string device, bound_by;
  double share = 1, start_s = 0, finish_s = 0, inflicted_s = 0;
};
struct StoredDecision {
  double t_s = 0;
  std::string kind;  // start, reserve, wait, reject
  std::string job, device, why, nearest_feasible;
  double share = 0, from_s = 0, probability = 0, predicted_finish_s = 0;
  int64_t batch = 0, inputs = 0;
  std::vector<StoredCandidate> candidates;
};

class DecisionWriter : public execution::DecisionSink {
 public:
  // Both outlive the writer.
  DecisionWriter(const std::vector<execution::JobInput>& jobs, const cluster::Cluster& cluster)
      : jobs_(jobs), cluster_(cluster) {}
  void OnDecision(Nanos now, const placement::Decision& decision) override;
  const std::string& text() const { return text_; }

 private:
  const std::vector<execution::JobInput>& jobs_;
  const cluster::Cluster& cluster_;
  std::string text_;
};

// To both of them; either may be null.
class DecisionTee : public execution::DecisionSink {
 public:
  DecisionTee(execution::DecisionSink* a, execution::DecisionSink* b) : a_(a), b_(b) {}
  bool empty() const { return !a_ && !b_; }
  void OnDecision(Nanos now, const placement::Decision& decision) override {
    if (a_) a_->OnDecision(now, decision);
    if (b_) b_->OnDecision(now, decision);
  }

 private:
  execution::DecisionSink *a_, *b_;
};

// Errors name the line.
Result<std::vector<StoredDecision>> ParseDecisions(const std::string& name, std::string_view text);

}  // namespace hase::apps
