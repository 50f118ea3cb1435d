#include "latency/cpu_recording.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
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

Result<Sample> KernelFrom(const ordered_json& row) {
  if (!row.is_array() || row.size() != std::size(kColumns)) {
    return Invalid(fmt::format("a kernel is an array of {} values", std::size(kColumns)));
  }
  Sample s;
  model::Kernel& k = s.kernel;
  k.name = row[0];
  k.op = row[1];
  HASE_ASSIGN_OR_RETURN(k.op_class, model::ParseOpClass(row[2].get<std::string>()));
  k.inputs = ParseInputs(row[3].get<std::string>());
  k.output = ParseShape(row[4].get<std::string>());
  k.window = ParseWindow(row[5].get<std::string>());
  k.fused_add = row[6].get<int>() != 0;
  k.activation = row[7];
  size_t i = 8;
  for (int64_t* value :
       {&k.flops, &k.bytes_activations, &k.bytes_weights, &k.bytes_written, &k.m, &k.n, &k.k,
        &k.gemm_batch, &k.reuse.activations, &k.reuse.weights, &k.reuse.output}) {
    *value = row[i++];
    if (*value < 0) return Invalid(fmt::format("{} is below 0", kColumns[i - 1]));
  }
  s.latency_us = row[i++];
  s.spread = row[i++];
  s.repeats = row[i];
  if (!(s.latency_us > 0)) return Invalid("a time must be above 0");
  return s;
}

struct Profile {
  const Sample* whole = nullptr;
  std::vector<const Sample*> kernels;
};

Status ReadProfile(const ordered_json& json, CpuRecording* out) {
  Sample common;
  common.source = json.at("source");
  common.model = json.at("model");
  common.batch = json.at("batch");
  common.device = out->device;
  if (json.contains("whole_us")) {
    Sample whole = common;
    whole.whole_model = true;
    whole.kernel.op = "Model";
    whole.latency_us = json.at("whole_us");
    whole.spread = json.at("whole_spread");
    whole.repeats = json.at("whole_runs");
    if (!(whole.latency_us > 0)) return Invalid("a time must be above 0");
    out->samples.push_back(std::move(whole));
  }
  for (const auto& row : json.at("kernels")) {
    HASE_ASSIGN_OR_RETURN(Sample s, KernelFrom(row));
    s.source = common.source;
    s.model = common.model;
    s.batch = common.batch;
    s.device = common.device;
    out->samples.push_back(std::move(s));
  }
  return {};
}

}  // namespace

std::string ToJsonLines(const CpuRecording& recording) {
  // In the order in which they were measured.
  std::vector<Profile> profiles;
  std::map<std::tuple<std::string, std::string, int64_t>, size_t> index;
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
  std::string text =
      ordered_json{
          {"machine", recording.machine}, {"device", recording.device}, {"columns", kColumns}}
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
  size_t start = 0;
  for (int line = 1; start < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const auto fail = [&](std::string_view what) {
      return Invalid(fmt::format("{}:{}: {}", name, line, what));
    };
    try {
      const auto json = ordered_json::parse(text.substr(start, end - start));
      if (line == 1) {
        out.machine = json.at("machine");
        out.device = json.at("device");
        if (json.at("columns") != ordered_json(kColumns)) {
          return fail("columns differ from those that this version reads; record it again");
        }
      } else if (const auto read = ReadProfile(json, &out); !read) {
        return fail(read.error().message);
      }
    } catch (const nlohmann::json::exception& e) {
      return fail(e.what());
    }
    start = end + 1;
  }
  if (out.samples.empty()) return Invalid(name + ": holds no profile");
  return out;
}

}  // namespace hase::latency
