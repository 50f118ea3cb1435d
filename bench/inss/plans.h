// The acceptance runs of the service planner, each printing one table of docs/services.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cases.h"
#include "placement/services/inss.h"

namespace hase::bench {

struct RunOptions {
  int seeds = 1;          // worlds per case
  int fresh = 0;          // > 0: that many drawn cases instead of the committed ones …
  uint64_t first = 1000;  // … from this seed on
  bool profiled = true;   // planners are told nine points per (model, device type)
  double margin = placement::InssOptions().margin;  // of inss, in standard errors
  bool detail = false;               // every service of inss: planned against the world
  std::string only;                  // a part of the case's name
  std::string arrivals = "poisson";  // or bursty, diurnal, trace
  std::string trace = "../shared/data/traces/azure_llm_traces/AzureLLMInferenceTrace_conv_2023.csv";
};

// Throughput within the objectives of every policy, late requests, planned against true p99, the
// fraction of the bound.
int RunPlans(const RunOptions& options);
// Cost at the given rates, against igniter and the bound.
int RunCost(const RunOptions& options);
// Error of the corrected share law on the world's surfaces, off the nine points.
int RunFit(const RunOptions& options);
// ParvaGPU rows from the kernel-level prediction alone.
int RunParva(const RunOptions& options);
// Plan times, re-plan times.
int RunScale(int most_devices);
int RunReplan();
// Rates that drift and burst: attainment and cost, by what the adapter may do.
int RunAdapt(const RunOptions& options);

}  // namespace hase::bench
