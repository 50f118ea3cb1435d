// LoadRow: one model run beside strangers, with what the counters said just before it started: what
// `hase evaluate --load` records (JSON Lines, docs/formats.md) and scores. A recording holds all
// that the law needs, so the law is tested without timing anything.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/telemetry/snapshot.h"
#include "latency/cpu_load.h"
#include "latency/slowdown.h"

namespace hase::latency {

struct LoadRow {
  std::string model, device, stranger;  // `stranger` is a label: no prediction may read it
  bool fitted = false;                  // the law's constants were fitted on rows like this one
  int64_t batch = 1;
  std::vector<int> cores;
  double quota = 1;
  double solo_ms = 0, observed_ms = 0;
  Demand demand;               // of the model, alone
  std::vector<Demand> ledger;  // of tenants that HASE itself placed there
  QuietProbe quiet;
  cluster::telemetry::Snapshot snapshot;
};

std::string ToJsonLine(const LoadRow& row);
// Errors read "NAME:LINE: …".
Result<std::vector<LoadRow>> ParseLoadRows(const std::string& name, std::string_view text);

// Predicted from the solo time, the ledger and the snapshot; and from the first two alone.
double PredictedMs(const LoadRow& row);
double BlindMs(const LoadRow& row);

// Mean absolute errors over a set of rows, as fractions of the observed time.
struct LoadScore {
  int rows = 0;
  double error = 0, blind = 0;
  double worst = 0;
};
LoadScore ScoreOf(std::span<const LoadRow* const> rows);

}  // namespace hase::latency
