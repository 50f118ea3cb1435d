// Readers of workloads: jobs.csv or JSON Lines, services.yaml, rate files. Formats in
// docs/formats.md. Every complaint names file, line and column and says what to do; unknown columns
// and keys are errors unless they start with x_.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "workload/job.h"

namespace hase::workload {

// By the file's name: .jsonl and .json are JSON Lines, all else CSV. Jobs stand in the file's
// order.
Result<std::vector<Job>> LoadJobs(const std::string& path);
Result<std::vector<Job>> ParseJobsCsv(const std::string& name, std::string_view text);
Result<std::vector<Job>> ParseJobsJson(const std::string& name, std::string_view text);
// What ParseJobsCsv reads back as the same jobs.
std::string WriteJobsCsv(const std::vector<Job>& jobs);

// `rate_file` paths are relative to the services file, `path`.
Result<std::vector<Service>> LoadServices(const std::string& path);
Result<std::vector<Service>> ParseServices(const std::string& path, const std::string& text);
Result<std::vector<RatePoint>> ParseRates(const std::string& name, std::string_view text);

}  // namespace hase::workload
