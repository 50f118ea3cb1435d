#include "latency/cpu_recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "latency/kernel_text.h"

namespace hase::latency {
namespace {

using nlohmann::ordered_json;

constexpr const char* kColumns[] = {"name",
                                    "op",
                                    "op_class",
                                    "inputs",
                                    "output",
                                    "window",
                                    "fused_add",
                                    "activation",
                                    "flops",
                                    "bytes_activations",
                                    "bytes_weights",
                                    "bytes_written",
                                    "m",
                                    "n",
                                    "k",
                                    "gemm_batch",
                                    "reuse_activations",
                                    "reuse_weights",
                                    "reuse_output",
                                    "us",
                                    "spread",
                                    "repeats"};

// To a thousandth: measured times are not better than that.
double Short(double value) { return std::round(value * 1000) / 1000; }

ordered_json ToJson(const Sample& s) {
  const model::Kernel& k = s.kernel;
  return ordered_json::array({k.name,
                              k.op,
                              model::ToString(k.op_class),
                              InputsText(k.inputs),
                              ShapeText(k.output),
                              WindowText(k.window),
                              k.fused_add ? 1 : 0,
                              k.activation,
                              k.flops,
                              k.bytes_activations,
                              k.bytes_weights,
                              k.bytes_written,
                              k.m,
                              k.n,
                              k.k,
                              k.gemm_batch,
                              k.reuse.activations,
                              k.reuse.weights,
                              k.reuse.output,
                              Short(s.latency_us),
                              Short(s.spread),
                              s.repeats});
}

// What a value may be: far more than any real one, far less than what sums overflow at.
constexpr int64_t kMostWork = int64_t{1} << 50, kMostRepeats = 1'000'000'000;
constexpr double kMostUs = 1e12, kMostSpread = 1e6;

Result<int64_t> Whole(const ordered_json& json, std::string_view name, int64_t lo, int64_t hi) {
  const bool whole = json.is_number_integer() &&
                     !(json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{1} << 62);
  if (!whole || json.get<int64_t>() < lo || json.get<int64_t>() > hi) {
    return Invalid(
        fmt::format("{}: {} is no whole number between {} and {}", name, json.dump(), lo, hi));
  }
  return json.get<int64_t>();
}

Result<double> Real(const ordered_json& json, std::string_view name, double hi) {
  if (!json.is_number() || !(json.get<double>() >= 0 && json.get<double>() <= hi)) {
    return Invalid(fmt::format("{}: {} is no number between 0 and {:g}", name, json.dump(), hi));
  }
  return json.get<double>();
}

Result<double> Time(const ordered_json& json, std::string_view name) {
  HASE_ASSIGN_OR_RETURN(const double us, Real(json, name, kMostUs));
  if (us <= 0) return Invalid(fmt::format("{}: a time must be above 0", name));
  return us;
}

Result<std::string> Text(const ordered_json& json, std::string_view name) {
  if (!json.is_string()) return Invalid(fmt::format("{}: expected a text", name));
  return json.get<std::string>();
}

Result<const ordered_json*> Find(const ordered_json& json, std::string_view key) {
  const auto at = json.find(key);
  if (at == json.end()) return Invalid(fmt::format("key '{}' is missing", key));
  return &*at;
}
Result<std::string> TextAt(const ordered_json& json, std::string_view key) {
  HASE_ASSIGN_OR_RETURN(const ordered_json* value, Find(json, key));
  HASE_ASSIGN_OR_RETURN(std::string text, Text(*value, key));
  if (text.empty()) return Invalid(fmt::format("{}: is empty", key));
  return text;
}

Status CheckKeys(const ordered_json& json, std::initializer_list<std::string_view> known) {
  if (!json.is_object()) return Invalid("expected an object");
  for (const auto& [key, value] : json.items()) {
    if (key.starts_with("x_") || std::ranges::find(known, key) != known.end()) continue;
    return Invalid(fmt::format("unknown key '{}'", key));
  }
  return {};
}

bool Sound(const model::Shape& shape) {
  const auto count = model::ElementCount(shape);
  return std::ranges::none_of(shape, [](int64_t d) { return d < 1; }) && count &&
         *count <= kMostWork;
}

// The parsers of samples.db skip what they do not understand: text that does not come out again as
// it went in was not understood.
Status ReadGeometry(const ordered_json& inputs, const ordered_json& output,
                    const ordered_json& window, model::Kernel& k) {
  HASE_ASSIGN_OR_RETURN(const std::string in, Text(inputs, "inputs"));
  k.inputs = ParseInputs(in);
  if (in.empty() || InputsText(k.inputs) != in || !std::ranges::all_of(k.inputs, Sound)) {
    return Invalid(fmt::format("inputs: '{}' are no shapes", in));
  }
  HASE_ASSIGN_OR_RETURN(const std::string out, Text(output, "output"));
  k.output = ParseShape(out);
  if (out.empty() || ShapeText(k.output) != out || !Sound(k.output)) {
    return Invalid(fmt::format("output: '{}' is no shape", out));
  }
  HASE_ASSIGN_OR_RETURN(const std::string text, Text(window, "window"));
  k.window = ParseWindow(text);
  const auto& w = k.window;
  const auto positive = [](int32_t v) { return v > 0; };
  if (WindowText(w) != text || !std::ranges::all_of(w.kernel, positive) ||
      !std::ranges::all_of(w.stride, positive) || !std::ranges::all_of(w.dilation, positive) ||
      std::ranges::any_of(w.pad, [](int32_t v) { return v < 0; }) || w.groups < 1) {
    return Invalid(fmt::format("window: '{}' is no window of eleven numbers", text));
  }
  return {};
}

Result<Sample> KernelFrom(const ordered_json& row) {
  if (!row.is_array() || row.size() != std::size(kColumns)) {
    return Invalid(fmt::format("a kernel is an array of {} values", std::size(kColumns)));
  }
  Sample s;
  model::Kernel& k = s.kernel;
  HASE_ASSIGN_OR_RETURN(k.name, Text(row[0], "name"));
  HASE_ASSIGN_OR_RETURN(k.op, Text(row[1], "op"));
  HASE_ASSIGN_OR_RETURN(const std::string op_class, Text(row[2], "op_class"));
  HASE_ASSIGN_OR_RETURN(k.op_class, model::ParseOpClass(op_class));
  HASE_RETURN_IF_ERROR(ReadGeometry(row[3], row[4], row[5], k));
  HASE_ASSIGN_OR_RETURN(const int64_t fused_add, Whole(row[6], "fused_add", 0, 1));
  k.fused_add = fused_add != 0;
  HASE_ASSIGN_OR_RETURN(k.activation, Text(row[7], "activation"));
  size_t i = 8;
  for (int64_t* value :
       {&k.flops, &k.bytes_activations, &k.bytes_weights, &k.bytes_written, &k.m, &k.n, &k.k,
        &k.gemm_batch, &k.reuse.activations, &k.reuse.weights, &k.reuse.output}) {
    HASE_ASSIGN_OR_RETURN(*value, Whole(row[i], kColumns[i], 0, kMostWork));
    ++i;
  }
  HASE_ASSIGN_OR_RETURN(s.latency_us, Time(row[i], "us"));
  HASE_ASSIGN_OR_RETURN(s.spread, Real(row[i + 1], "spread", kMostSpread));
  HASE_ASSIGN_OR_RETURN(s.repeats, Whole(row[i + 2], "repeats", 1, kMostRepeats));
  return s;
}

struct Profile {
  const Sample* whole = nullptr;
  std::vector<const Sample*> kernels;
};

// (source, model, batch)
using ProfileKey = std::tuple<std::string, std::string, int64_t>;

Result<Sample> WholeFrom(const ordered_json& json, const Sample& common) {
  Sample whole = common;
  whole.whole_model = true;
  whole.kernel.op = "Model";
  HASE_ASSIGN_OR_RETURN(const ordered_json* us, Find(json, "whole_us"));
  HASE_ASSIGN_OR_RETURN(whole.latency_us, Time(*us, "whole_us"));
  HASE_ASSIGN_OR_RETURN(const ordered_json* spread, Find(json, "whole_spread"));
  HASE_ASSIGN_OR_RETURN(whole.spread, Real(*spread, "whole_spread", kMostSpread));
  HASE_ASSIGN_OR_RETURN(const ordered_json* runs, Find(json, "whole_runs"));
  HASE_ASSIGN_OR_RETURN(whole.repeats, Whole(*runs, "whole_runs", 1, kMostRepeats));
  return whole;
}

Status ReadProfile(const ordered_json& json, std::set<ProfileKey>& seen, CpuRecording* out) {
  HASE_RETURN_IF_ERROR(CheckKeys(
      json, {"source", "model", "batch", "whole_us", "whole_spread", "whole_runs", "kernels"}));
  Sample common;
  common.device = out->device;
  HASE_ASSIGN_OR_RETURN(common.source, TextAt(json, "source"));
  if (common.source != "profile" && common.source != "calibrate") {
    return Invalid(fmt::format("source: '{}' is neither profile nor calibrate", common.source));
  }
  HASE_ASSIGN_OR_RETURN(common.model, TextAt(json, "model"));
  HASE_ASSIGN_OR_RETURN(const ordered_json* batch, Find(json, "batch"));
  HASE_ASSIGN_OR_RETURN(common.batch, Whole(*batch, "batch", 1, 1 << 20));
  if (!seen.insert({common.source, common.model, common.batch}).second) {
    return Invalid(fmt::format("{} at batch {} twice", common.model, common.batch));
  }
  if (json.contains("whole_us") || json.contains("whole_spread") || json.contains("whole_runs")) {
    HASE_ASSIGN_OR_RETURN(Sample whole, WholeFrom(json, common));
    out->samples.push_back(std::move(whole));
  }
  HASE_ASSIGN_OR_RETURN(const ordered_json* kernels, Find(json, "kernels"));
  if (!kernels->is_array() || kernels->empty()) {
    return Invalid("kernels: expected a list that is not empty");
  }
  for (const auto& row : *kernels) {
    HASE_ASSIGN_OR_RETURN(Sample s, KernelFrom(row));
    s.source = common.source;
    s.model = common.model;
    s.batch = common.batch;
    s.device = common.device;
    out->samples.push_back(std::move(s));
  }
  return {};
}

// The first line. `profiles` (older recordings lack it): how many lines follow.
Status ReadHeader(const ordered_json& json, CpuRecording* out, std::optional<int64_t>& profiles) {
  HASE_RETURN_IF_ERROR(CheckKeys(json, {"machine", "device", "columns", "profiles"}));
  HASE_ASSIGN_OR_RETURN(out->machine, TextAt(json, "machine"));
  HASE_ASSIGN_OR_RETURN(out->device, TextAt(json, "device"));
  if (!out->device.starts_with("cpu-")) {
    return Invalid(fmt::format("device: '{}' is no CPU partition, as cpu-1c-q1", out->device));
  }
  HASE_ASSIGN_OR_RETURN(const ordered_json* columns, Find(json, "columns"));
  if (*columns != ordered_json(kColumns)) {
    return Invalid("columns differ from those that this version reads; record it again");
  }
  if (const auto at = json.find("profiles"); at != json.end()) {
    HASE_ASSIGN_OR_RETURN(profiles, Whole(*at, "profiles", 1, kMostRepeats));
  }
  return {};
}

}  // namespace

std::string ToJsonLines(const CpuRecording& recording) {
  // In the order in which they were measured.
  std::vector<Profile> profiles;
  std::map<ProfileKey, size_t> index;
  for (const Sample& s : recording.samples) {
    const auto [at, fresh] = index.try_emplace({s.source, s.model, s.batch}, profiles.size());
    if (fresh) profiles.emplace_back();
    Profile& profile = profiles[at->second];
    if (s.whole_model) {
      profile.whole = &s;
    } else {
      profile.kernels.push_back(&s);
    }
  }
  std::string text = ordered_json{{"machine", recording.machine},
                                  {"device", recording.device},
                                  {"columns", kColumns},
                                  {"profiles", profiles.size()}}
                         .dump() +
                     "\n";
  for (const Profile& profile : profiles) {
    const Sample& any = profile.whole != nullptr ? *profile.whole : *profile.kernels.front();
    ordered_json line = {{"source", any.source}, {"model", any.model}, {"batch", any.batch}};
    if (const Sample* whole = profile.whole) {
      line["whole_us"] = Short(whole->latency_us);
      line["whole_spread"] = Short(whole->spread);
      line["whole_runs"] = whole->repeats;
    }
    auto kernels = ordered_json::array();
    for (const Sample* s : profile.kernels) kernels.push_back(ToJson(*s));
    line["kernels"] = std::move(kernels);
    text += line.dump() + "\n";
  }
  return text;
}

Result<CpuRecording> ParseCpuRecording(const std::string& name, std::string_view text) {
  CpuRecording out;
  std::set<ProfileKey> seen;
  std::optional<int64_t> profiles;
  size_t start = 0;
  for (int line = 1; start < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const auto json = ordered_json::parse(text.substr(start, end - start), nullptr, false);
    if (json.is_discarded()) return Invalid(fmt::format("{}:{}: not JSON", name, line));
    const Status read =
        line == 1 ? ReadHeader(json, &out, profiles) : ReadProfile(json, seen, &out);
    if (!read) return Invalid(fmt::format("{}:{}: {}", name, line, read.error().message));
    start = end + 1;
  }
  if (out.samples.empty()) return Invalid(name + ": holds no profile");
  if (profiles && *profiles != std::ssize(seen)) {
    return Invalid(fmt::format("{}: its first line says {} profiles, it holds {}: cut short?", name,
                               *profiles, seen.size()));
  }
  return out;
}

}  // namespace hase::latency
