// Jobs from CSV and JSON Lines: both forms are brought to one Record, so the rules stand once.
#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/csv.h"
#include "base/file.h"
#include "workload/reader.h"

namespace hase::workload {
namespace {

const std::vector<std::string_view> kColumns = {
    "job_id",     "model",     "batch",        "inputs",         "arrival_s", "priority",
    "deadline_s", "owner",     "max_parallel", "gang",           "sharing",   "device_types",
    "runtime",    "precision", "host_cores",   "host_memory_gib"};

// Times beyond this overflow integer nanoseconds when they are added up.
constexpr double kLongestSeconds = 1e9;

// One job's fields as text, wherever they came from.
class Record {
 public:
  virtual ~Record() = default;
  virtual std::string Text(std::string_view column) const = 0;
  virtual Result<std::optional<double>> Number(std::string_view column) const = 0;
  virtual Result<std::optional<int64_t>> Integer(std::string_view column) const = 0;
  virtual std::string Where(std::string_view column) const = 0;
};

class CsvRecord : public Record {
 public:
  CsvRecord(const CsvTable& table, size_t row) : table_(table), row_(row) {}
  std::string Text(std::string_view c) const override { return std::string(table_.Text(row_, c)); }
  Result<std::optional<double>> Number(std::string_view c) const override {
    return table_.Number(row_, c);
  }
  Result<std::optional<int64_t>> Integer(std::string_view c) const override {
    return table_.Integer(row_, c);
  }
  std::string Where(std::string_view c) const override { return table_.Where(row_, c); }

 private:
  const CsvTable& table_;
  size_t row_;
};

class JsonRecord : public Record {
 public:
  JsonRecord(const nlohmann::json& json, const std::string& name, size_t line)
      : json_(json), name_(name), line_(line) {}
  std::string Text(std::string_view c) const override {
    const auto at = json_.find(c);
    if (at == json_.end() || at->is_null()) return {};
    return at->is_string() ? at->get<std::string>() : at->dump();
  }
  Result<std::optional<double>> Number(std::string_view c) const override {
    const auto at = json_.find(c);
    if (at == json_.end() || at->is_null()) return std::nullopt;
    if (!at->is_number() || !std::isfinite(at->get<double>())) {
      return Invalid(fmt::format("{}: '{}' is not a finite number", Where(c), at->dump()));
    }
    return at->get<double>();
  }
  Result<std::optional<int64_t>> Integer(std::string_view c) const override {
    const auto at = json_.find(c);
    if (at == json_.end() || at->is_null()) return std::nullopt;
    const bool fits =
        at->is_number_integer() && !(at->is_number_unsigned() && at->get<uint64_t>() > INT64_MAX);
    if (!fits) return Invalid(fmt::format("{}: '{}' is not a whole number", Where(c), at->dump()));
    return at->get<int64_t>();
  }
  std::string Where(std::string_view c) const override {
    return fmt::format("{}:{} ({})", name_, line_, c);
  }

 private:
  const nlohmann::json& json_;
  const std::string& name_;
  size_t line_;
};

Result<int64_t> IntegerIn(const Record& r, std::string_view column, int64_t fallback, int64_t lo,
                          int64_t hi) {
  HASE_ASSIGN_OR_RETURN(const auto value, r.Integer(column));
  const int64_t v = value.value_or(fallback);
  if (v < lo || v > hi) {
    return Invalid(fmt::format("{}: {} must be between {} and {}", r.Where(column), v, lo, hi));
  }
  return v;
}

Result<std::optional<Nanos>> TimeOf(const Record& r, std::string_view column) {
  HASE_ASSIGN_OR_RETURN(const auto value, r.Number(column));
  if (!value) return std::nullopt;
  if (*value < 0 || *value > kLongestSeconds) {
    return Invalid(fmt::format("{}: {} must be between 0 and {:g} seconds", r.Where(column), *value,
                               kLongestSeconds));
  }
  return FromSeconds(*value);
}

Result<Sharing> ParseSharing(const Record& r) {
  const std::string text = r.Text("sharing");
  if (text.empty() || text == "any") return Sharing::kAny;
  if (text == "never") return Sharing::kNever;
  if (text == "same-owner") return Sharing::kSameOwner;
  return Invalid(
      fmt::format("{}: unknown sharing '{}' (never, same-owner or any)", r.Where("sharing"), text));
}

std::vector<std::string> SplitTypes(std::string_view text) {
  std::vector<std::string> types;
  while (!text.empty()) {
    const size_t bar = std::min(text.find('|'), text.size());
    if (bar > 0) types.emplace_back(text.substr(0, bar));
    text.remove_prefix(std::min(bar + 1, text.size()));
  }
  return types;
}

Status ReadSizes(const Record& r, Job& job) {
  constexpr int64_t kMost = int64_t{1} << 40;
  HASE_ASSIGN_OR_RETURN(job.batch, IntegerIn(r, "batch", 1, 1, 1 << 20));
  HASE_ASSIGN_OR_RETURN(job.inputs, IntegerIn(r, "inputs", job.batch, 1, kMost));
  HASE_ASSIGN_OR_RETURN(const int64_t priority, IntegerIn(r, "priority", 0, -1000000, 1000000));
  HASE_ASSIGN_OR_RETURN(const int64_t parallel, IntegerIn(r, "max_parallel", 1, 1, 100000));
  HASE_ASSIGN_OR_RETURN(const int64_t gang, IntegerIn(r, "gang", 1, 1, 100000));
  job.priority = static_cast<int>(priority);
  job.max_parallel = static_cast<int>(parallel);
  job.gang = static_cast<int>(gang);
  if (job.gang > 1 && job.max_parallel > 1) {
    return Invalid(fmt::format("{}: a gang of {} cannot be cut as well; leave max_parallel at 1",
                               r.Where("max_parallel"), job.gang));
  }
  HASE_ASSIGN_OR_RETURN(const auto cores, r.Number("host_cores"));
  HASE_ASSIGN_OR_RETURN(const auto memory, r.Number("host_memory_gib"));
  if (cores.value_or(0) < 0 || cores.value_or(0) > 1e6) {
    return Invalid(fmt::format("{}: {} cores", r.Where("host_cores"), *cores));
  }
  if (memory.value_or(0) < 0 || memory.value_or(0) > 1e6) {
    return Invalid(fmt::format("{}: {} GiB", r.Where("host_memory_gib"), *memory));
  }
  job.host_cores_milli = static_cast<int>(std::lround(cores.value_or(0) * 1000));
  job.host_memory = Bytes(std::llround(memory.value_or(0) * double{1 << 30}));
  return {};
}

Result<Job> ReadJob(const Record& r) {
  Job job;
  job.job_id = r.Text("job_id");
  job.model = r.Text("model");
  if (job.job_id.empty()) return Invalid(fmt::format("{}: empty", r.Where("job_id")));
  if (job.model.empty()) return Invalid(fmt::format("{}: empty", r.Where("model")));
  HASE_RETURN_IF_ERROR(ReadSizes(r, job));
  HASE_ASSIGN_OR_RETURN(const auto arrival, TimeOf(r, "arrival_s"));
  job.arrival = arrival.value_or(Nanos(0));
  HASE_ASSIGN_OR_RETURN(job.deadline, TimeOf(r, "deadline_s"));
  if (job.deadline && *job.deadline <= job.arrival) {
    return Invalid(
        fmt::format("{}: the deadline {} s is not after the arrival at {} s (deadlines "
                    "are absolute)",
                    r.Where("deadline_s"), ToSeconds(*job.deadline), ToSeconds(job.arrival)));
  }
  job.owner = r.Text("owner");
  HASE_ASSIGN_OR_RETURN(job.sharing, ParseSharing(r));
  job.device_types = SplitTypes(r.Text("device_types"));
  if (const auto text = r.Text("runtime"); !text.empty()) {
    const auto runtime = model::ParseRuntime(text);
    if (!runtime) {
      return Invalid(fmt::format("{}: {}", r.Where("runtime"), runtime.error().message));
    }
    job.runtime = *runtime;
  }
  if (const auto text = r.Text("precision"); !text.empty()) {
    const auto precision = model::ParsePrecision(text);
    if (!precision) {
      return Invalid(fmt::format("{}: {}", r.Where("precision"), precision.error().message));
    }
    job.precision = *precision;
  }
  return job;
}

// Adds the job unless its id is taken.
class JobList {
 public:
  Status Add(const Record& record) {
    HASE_ASSIGN_OR_RETURN(Job job, ReadJob(record));
    const auto [at, added] = seen_.emplace(job.job_id, record.Where("job_id"));
    if (!added) {
      return Invalid(fmt::format("{}: job_id '{}' stands already at {}", record.Where("job_id"),
                                 job.job_id, at->second));
    }
    jobs.push_back(std::move(job));
    return {};
  }
  std::vector<Job> jobs;

 private:
  std::unordered_map<std::string, std::string> seen_;
};

std::string Seconds(Nanos t) {
  // Nine decimals are exact; trailing zeros are not wanted.
  std::string text = fmt::format("{}.{:09}", t.value() / 1'000'000'000, t.value() % 1'000'000'000);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

Result<std::vector<Job>> ParseJobsCsv(const std::string& name, std::string_view text) {
  HASE_ASSIGN_OR_RETURN(const CsvTable table,
                        CsvTable::Parse(name, text, kColumns, {"job_id", "model"}));
  JobList list;
  for (size_t row = 0; row < table.rows(); ++row) {
    HASE_RETURN_IF_ERROR(list.Add(CsvRecord(table, row)));
  }
  if (list.jobs.empty()) return Invalid(fmt::format("{}: no jobs", name));
  return std::move(list.jobs);
}

Result<std::vector<Job>> ParseJobsJson(const std::string& name, std::string_view text) {
  JobList list;
  size_t line = 0;
  while (!text.empty()) {
    ++line;
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (one.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto json = nlohmann::json::parse(one, nullptr, false);
    if (!json.is_object()) {
      return Invalid(fmt::format("{}:{}: not a JSON object on one line", name, line));
    }
    for (const auto& [key, value] : json.items()) {
      const bool known = std::find(kColumns.begin(), kColumns.end(), key) != kColumns.end();
      if (!known && !key.starts_with("x_")) {
        return Invalid(fmt::format("{}:{}: unknown key '{}'", name, line, key));
      }
    }
    HASE_RETURN_IF_ERROR(list.Add(JsonRecord(json, name, line)));
  }
  if (list.jobs.empty()) return Invalid(fmt::format("{}: no jobs", name));
  return std::move(list.jobs);
}

Result<std::vector<Job>> LoadJobs(const std::string& path) {
  HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, int64_t{1} << 30));
  const bool json = path.ends_with(".jsonl") || path.ends_with(".json");
  return json ? ParseJobsJson(path, text) : ParseJobsCsv(path, text);
}

std::string WriteJobsCsv(const std::vector<Job>& jobs) {
  constexpr std::string_view kSharing[] = {"never", "same-owner", "any"};
  std::string out =
      "job_id,model,batch,inputs,arrival_s,priority,deadline_s,owner,max_parallel,gang,sharing,"
      "device_types,runtime,precision,host_cores,host_memory_gib\n";
  for (const auto& j : jobs) {
    std::string types;
    for (const auto& t : j.device_types) types += (types.empty() ? "" : "|") + t;
    fmt::format_to(std::back_inserter(out), "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
                   CsvField(j.job_id), CsvField(j.model), j.batch, j.inputs, Seconds(j.arrival),
                   j.priority, j.deadline ? Seconds(*j.deadline) : "", CsvField(j.owner),
                   j.max_parallel, j.gang, kSharing[static_cast<size_t>(j.sharing)],
                   CsvField(types), j.runtime ? model::ToString(*j.runtime) : "",
                   model::ToString(j.precision), j.host_cores_milli / 1000.0,
                   static_cast<double>(j.host_memory.value()) / double{1 << 30});
  }
  return out;
}

}  // namespace hase::workload
