// The packets of protocol.h as JSON: {"kind": …, fields}. Times in nanoseconds, sizes in bytes.
#include "execution/worker/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace hase::execution {
namespace {

using nlohmann::json;
namespace ort = model::ort;

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};

Nanos TimeAt(const json& j, const char* key) { return Nanos(j.at(key).get<int64_t>()); }
Bytes SizeAt(const json& j, const char* key) { return Bytes(j.at(key).get<int64_t>()); }

json ToJson(const ort::NodeTime& n) {
  return {{"name", n.name},     {"op", n.op},         {"provider", n.provider},
          {"p10_us", n.p10_us}, {"p50_us", n.p50_us}, {"p90_us", n.p90_us},
          {"runs", n.runs},     {"output", n.output}};
}

ort::NodeTime NodeFrom(const json& j) {
  ort::NodeTime n;
  n.name = j.at("name");
  n.op = j.at("op");
  n.provider = j.at("provider");
  n.p10_us = j.at("p10_us");
  n.p50_us = j.at("p50_us");
  n.p90_us = j.at("p90_us");
  n.runs = j.at("runs");
  n.output = j.at("output").get<model::Shape>();
  return n;
}

LoadRequest LoadFrom(const json& j) {
  LoadRequest r;
  r.model = j.at("model");
  r.batch = j.at("batch");
  r.threads = j.at("threads");
  r.provider = j.at("provider") == "cuda" ? ort::Provider::kCuda : ort::Provider::kCpu;
  r.cuda_device = j.at("cuda_device");
  r.optimisation =
      static_cast<ort::Optimisation>(std::clamp(j.at("optimisation").get<int>(), 0, 3));
  r.dimensions = j.at("dimensions");
  r.warm_up = j.at("warm_up");
  r.profile_prefix = j.at("profile_prefix");
  r.duty = MilliShare(j.at("duty").get<int64_t>());
  r.memory_limit = SizeAt(j, "memory_limit");
  r.time_limit_s = j.at("time_limit_s");
  return r;
}

Chunk ChunkFrom(const json& j) {
  Chunk c{.inputs = j.at("inputs"),
          .batches = j.at("batches"),
          .busy = TimeAt(j, "busy"),
          .processor = TimeAt(j, "processor"),
          .p10 = TimeAt(j, "p10"),
          .p50 = TimeAt(j, "p50"),
          .p90 = TimeAt(j, "p90"),
          .times = {}};
  for (const auto& t : j.at("times")) c.times.emplace_back(t.get<int64_t>());
  return c;
}

Request RequestFrom(const json& j) {
  const std::string kind = j.at("kind");
  if (kind == "load") return LoadFrom(j);
  if (kind == "run") {
    return RunRequest{.inputs = j.at("inputs"),
                      .chunk_inputs = j.at("chunk_inputs"),
                      .want_times = j.at("want_times"),
                      .then_exit = j.at("then_exit")};
  }
  if (kind == "stop") return StopRequest{};
  throw std::invalid_argument("unknown kind " + kind);
}

Message MessageFrom(const json& j) {
  const std::string kind = j.at("kind");
  if (kind == "loaded") {
    return Loaded{.load = TimeAt(j, "load"),
                  .create = TimeAt(j, "create"),
                  .warm_up = TimeAt(j, "warm_up"),
                  .baseline = SizeAt(j, "baseline"),
                  .peak = SizeAt(j, "peak")};
  }
  if (kind == "chunk") return ChunkFrom(j);
  if (kind == "beat") return Beat{};
  if (kind == "profile") {
    Profile profile;
    for (const auto& node : j.at("nodes")) profile.nodes.push_back(NodeFrom(node));
    return profile;
  }
  if (kind == "done") return Done{.peak = SizeAt(j, "peak")};
  if (kind == "failure") {
    return Failure{.kind = static_cast<ErrorKind>(std::clamp(j.at("error").get<int>(), 0, 3)),
                   .why = j.at("why"),
                   .out_of_memory = j.at("out_of_memory")};
  }
  throw std::invalid_argument("unknown kind " + kind);
}

json ToJson(const Request& request) {
  return std::visit(Overloaded{
                        [](const LoadRequest& r) -> json {
                          return {{"kind", "load"},
                                  {"model", r.model},
                                  {"batch", r.batch},
                                  {"threads", r.threads},
                                  {"provider", ort::ToString(r.provider)},
                                  {"cuda_device", r.cuda_device},
                                  {"optimisation", static_cast<int>(r.optimisation)},
                                  {"dimensions", r.dimensions},
                                  {"warm_up", r.warm_up},
                                  {"profile_prefix", r.profile_prefix},
                                  {"duty", r.duty.value()},
                                  {"memory_limit", r.memory_limit.value()},
                                  {"time_limit_s", r.time_limit_s}};
                        },
                        [](const RunRequest& r) -> json {
                          return {{"kind", "run"},
                                  {"inputs", r.inputs},
                                  {"chunk_inputs", r.chunk_inputs},
                                  {"want_times", r.want_times},
                                  {"then_exit", r.then_exit}};
                        },
                        [](const StopRequest&) -> json { return {{"kind", "stop"}}; },
                    },
                    request);
}

json ToJson(const Chunk& c) {
  json times = json::array();
  for (const Nanos t : c.times) times.push_back(t.value());
  return {{"kind", "chunk"},
          {"inputs", c.inputs},
          {"batches", c.batches},
          {"busy", c.busy.value()},
          {"processor", c.processor.value()},
          {"p10", c.p10.value()},
          {"p50", c.p50.value()},
          {"p90", c.p90.value()},
          {"times", std::move(times)}};
}

json ToJson(const Message& message) {
  return std::visit(
      Overloaded{
          [](const Loaded& m) -> json {
            return {{"kind", "loaded"},
                    {"load", m.load.value()},
                    {"create", m.create.value()},
                    {"warm_up", m.warm_up.value()},
                    {"baseline", m.baseline.value()},
                    {"peak", m.peak.value()}};
          },
          [](const Chunk& m) -> json { return ToJson(m); },
          [](const Beat&) -> json { return {{"kind", "beat"}}; },
          [](const Profile& m) -> json {
            json nodes = json::array();
            for (const auto& node : m.nodes) nodes.push_back(ToJson(node));
            return {{"kind", "profile"}, {"nodes", std::move(nodes)}};
          },
          [](const Done& m) -> json { return {{"kind", "done"}, {"peak", m.peak.value()}}; },
          [](const Failure& m) -> json {
            return {{"kind", "failure"},
                    {"error", static_cast<int>(m.kind)},
                    {"why", m.why},
                    {"out_of_memory", m.out_of_memory}};
          },
      },
      message);
}

// Names of a model's nodes may hold bytes that are no UTF-8: replaced, not refused.
std::string Dump(const json& j) { return j.dump(-1, ' ', false, json::error_handler_t::replace); }

template <typename T>
Result<T> Decode(std::string_view text, T (*from)(const json&)) {
  try {
    return from(json::parse(text));
  } catch (const std::exception& e) {
    return Invalid(fmt::format("a worker's packet cannot be read: {}", e.what()));
  }
}

}  // namespace

std::string Encode(const Request& request) { return Dump(ToJson(request)); }
std::string Encode(const Message& message) { return Dump(ToJson(message)); }
Result<Request> DecodeRequest(std::string_view text) { return Decode(text, RequestFrom); }
Result<Message> DecodeMessage(std::string_view text) { return Decode(text, MessageFrom); }

}  // namespace hase::execution
