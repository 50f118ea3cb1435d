// predictor.bin: magic line, length of the header, a JSON header, .xz blocks of trees,
// which are unpacked only when a kernel asks for them.
#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "latency/ensemble.h"

namespace hase::latency {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMagic = "HASE-PREDICTOR 1\n";

// Of all blocks: they are unpacked late, when a message could no longer be returned. FNV-1a over
// words of eight bytes, little-endian, the last one padded with zeros.
uint64_t Checksum(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t at = 0; at < bytes.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<size_t>(8, bytes.size() - at));
    hash = (hash ^ word) * 0x100000001b3;
  }
  return hash;
}

Json ToJson(const std::map<std::string, Quantiles>& map) {
  Json out = Json::object();
  for (const auto& [key, q] : map) out[key] = {q.low, q.high, q.rows};
  return out;
}

std::map<std::string, Quantiles> QuantilesFrom(const Json& json) {
  std::map<std::string, Quantiles> out;
  for (const auto& [key, q] : json.items()) {
    out[key] = {q.at(0).get<double>(), q.at(1).get<double>(), q.at(2).get<int64_t>()};
  }
  return out;
}

// What features need of a card.
Json SpecsToJson(std::span<const cluster::DeviceSpec> specs) {
  Json out = Json::array();
  for (const auto& s : specs) {
    out.push_back({{"name", s.name},
                   {"vendor", s.vendor},
                   {"capability", s.compute_capability},
                   {"sm_count", s.sm_count},
                   {"cores_per_sm", s.cores_per_sm},
                   {"boost_clock_mhz", s.boost_clock_mhz},
                   {"bandwidth_gb_s", s.bandwidth_gb_s},
                   {"l2_bytes", s.l2.value()},
                   {"peak_tflops", s.peak_tflops}});
  }
  return out;
}

cluster::DeviceSpec SpecFrom(const Json& json) {
  cluster::DeviceSpec s;
  s.name = json.at("name").get<std::string>();
  s.vendor = json.at("vendor").get<std::string>();
  s.compute_capability = json.at("capability").get<int>();
  s.sm_count = json.at("sm_count").get<int>();
  s.cores_per_sm = json.at("cores_per_sm").get<int>();
  s.boost_clock_mhz = json.at("boost_clock_mhz").get<int>();
  s.bandwidth_gb_s = json.at("bandwidth_gb_s").get<double>();
  s.l2 = Bytes(json.at("l2_bytes").get<int64_t>());
  s.peak_tflops = json.at("peak_tflops").get<std::array<double, 5>>();
  return s;
}

template <typename E>
Result<E> EnumFrom(const std::string& text, int count) {
  for (int i = 0; i < count; ++i) {
    if (ToString(static_cast<E>(i)) == text) return static_cast<E>(i);
  }
  return Invalid("unknown name '" + text + "'");
}

Result<PackedTrees> TreesFrom(std::string_view blocks, const Json& place, size_t features,
                              std::string name) {
  const auto from = place.at(0).get<size_t>(), length = place.at(1).get<size_t>();
  if (length == 0) return PackedTrees();
  if (from > blocks.size() || length > blocks.size() - from) return Invalid("cut short");
  return PackedTrees(std::move(name), std::string(blocks.substr(from, length)), features);
}

Result<Ensemble> EnsembleFrom(const std::string& name, const Json& json, std::string_view blocks) {
  Ensemble e;
  HASE_ASSIGN_OR_RETURN(e.family, EnumFrom<Family>(json.at("family"), kFamilyCount));
  HASE_ASSIGN_OR_RETURN(e.convention,
                        EnumFrom<Convention>(json.at("convention"), kConventionCount));
  e.devices = json.at("devices").get<std::vector<std::string>>();
  if (e.devices.size() > Ensemble::kMostDevices) {
    return Invalid(fmt::format("{}: {} cards in one set", name, e.devices.size()));
  }
  e.identities = json.at("identities").get<std::vector<std::vector<float>>>();
  e.cells = json.at("cells").get<std::map<std::string, int64_t>>();
  e.seen = QuantilesFrom(json.at("seen"));
  e.unseen = QuantilesFrom(json.at("unseen"));
  e.shared_sigma = json.at("shared_sigma").get<double>();
  e.unseen_shared_sigma = json.at("unseen_shared_sigma").get<double>();
  e.unseen_floor = json.value("unseen_floor", -1.0);
  for (const auto& spec : json.value("specs", Json::array())) e.specs.push_back(SpecFrom(spec));
  if (!e.specs.empty() && e.specs.size() != e.devices.size()) {
    return Invalid("devices without specifications");
  }
  const auto& names = FeatureNames(e.family);
  if (json.at("features").get<std::vector<std::string>>() != names) {
    return Invalid("its features are those of another version; run `hase train`");
  }
  const size_t identity = names.size() - ShapeFeatureCount(e.family);
  if (e.identities.size() != e.devices.size()) return Invalid("devices without identities");
  for (const auto& values : e.identities) {
    if (values.size() != identity) return Invalid("an identity of the wrong length");
  }
  HASE_ASSIGN_OR_RETURN(e.trees, TreesFrom(blocks, json.at("trees"), names.size(), name));
  HASE_ASSIGN_OR_RETURN(e.size, TreesFrom(blocks, json.at("size"), names.size(), name));
  return e;
}

}  // namespace

Result<std::string> WriteModelFile(const ModelFile& file) {
  std::string blocks;
  const auto add = [&](const PackedTrees& trees) -> Result<Json> {
    if (trees.empty()) return Json::array({blocks.size(), 0});
    HASE_ASSIGN_OR_RETURN(const auto packed, Compress(trees->Serialise()));
    Json place = Json::array({blocks.size(), packed.size()});
    blocks += packed;
    return place;
  };
  Json header = {{"trained_on", file.trained_on}, {"ensembles", Json::array()}};
  for (const auto& e : file.ensembles) {
    Json json = {{"family", ToString(e.family)},
                 {"convention", ToString(e.convention)},
                 {"devices", e.devices},
                 {"identities", e.identities},
                 {"cells", e.cells},
                 {"features", FeatureNames(e.family)},
                 {"seen", ToJson(e.seen)},
                 {"unseen", ToJson(e.unseen)},
                 {"unseen_floor", e.unseen_floor},
                 {"specs", SpecsToJson(e.specs)},
                 {"shared_sigma", e.shared_sigma},
                 {"unseen_shared_sigma", e.unseen_shared_sigma}};
    HASE_ASSIGN_OR_RETURN(json["trees"], add(e.trees));
    HASE_ASSIGN_OR_RETURN(json["size"], add(e.size));
    header["ensembles"].push_back(std::move(json));
  }
  header["checksum"] = Checksum(blocks);
  const std::string text = header.dump();
  return fmt::format("{}{}\n{}\n", kMagic, text.size(), text) + blocks;
}

Result<ModelFile> ReadModelFile(std::string name, std::string_view bytes) {
  const auto bad = [&](std::string_view what) {
    return Invalid(fmt::format("{}: {}; take the shipped file or run `hase train`", name, what));
  };
  if (!bytes.starts_with(kMagic)) return bad("not a predictor file of this version");
  bytes.remove_prefix(kMagic.size());
  size_t length = 0;
  const auto line_end = bytes.find('\n');
  if (line_end == std::string_view::npos ||
      std::from_chars(bytes.data(), bytes.data() + line_end, length).ec != std::errc() ||
      length > bytes.size() - line_end - 1) {
    return bad("damaged header");
  }
  const auto text = bytes.substr(line_end + 1, length);
  const auto blocks = bytes.substr(std::min(bytes.size(), line_end + 2 + length));
  ModelFile file;
  try {
    const Json header = Json::parse(text);
    file.trained_on = header.at("trained_on").get<std::string>();
    // Files of earlier versions have none; the .xz blocks carry one each, looked at when unpacked.
    if (header.contains("checksum") && header.at("checksum").get<uint64_t>() != Checksum(blocks)) {
      return bad("damaged trees");
    }
    for (const auto& json : header.at("ensembles")) {
      auto ensemble = EnsembleFrom(name, json, blocks);
      if (!ensemble) return bad(ensemble.error().message);
      file.ensembles.push_back(std::move(*ensemble));
    }
  } catch (const std::exception& error) {
    return bad(fmt::format("damaged header ({})", error.what()));
  }
  return file;
}

}  // namespace hase::latency
