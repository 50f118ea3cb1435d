// predictor.bin: magic line, length of the header, a JSON header, .xz blocks of trees.
#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "latency/ensemble.h"

namespace hase::latency {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMagic = "HASE-PREDICTOR 1\n";

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

template <typename E>
Result<E> EnumFrom(const std::string& text, int count) {
  for (int i = 0; i < count; ++i) {
    if (ToString(static_cast<E>(i)) == text) return static_cast<E>(i);
  }
  return Invalid("unknown name '" + text + "'");
}

Result<Trees> TreesFrom(std::string_view blocks, const Json& place) {
  const auto from = place.at(0).get<size_t>(), length = place.at(1).get<size_t>();
  if (length == 0) return Trees();
  if (from > blocks.size() || length > blocks.size() - from) return Invalid("cut short");
  HASE_ASSIGN_OR_RETURN(const auto bytes, Decompress(blocks.substr(from, length)));
  return Trees::Parse(bytes);
}

Result<Ensemble> EnsembleFrom(const Json& json, std::string_view blocks) {
  Ensemble e;
  HASE_ASSIGN_OR_RETURN(e.family, EnumFrom<Family>(json.at("family"), kFamilyCount));
  HASE_ASSIGN_OR_RETURN(e.convention,
                        EnumFrom<Convention>(json.at("convention"), kConventionCount));
  e.devices = json.at("devices").get<std::vector<std::string>>();
  e.identities = json.at("identities").get<std::vector<std::vector<float>>>();
  e.cells = json.at("cells").get<std::map<std::string, int64_t>>();
  e.seen = QuantilesFrom(json.at("seen"));
  e.unseen = QuantilesFrom(json.at("unseen"));
  e.shared_sigma = json.at("shared_sigma").get<double>();
  e.unseen_shared_sigma = json.at("unseen_shared_sigma").get<double>();
  const auto& names = FeatureNames(e.family);
  if (json.at("features").get<std::vector<std::string>>() != names) {
    return Invalid("its features are those of another version; run `hase train`");
  }
  const size_t identity = names.size() - ShapeFeatureCount(e.family);
  if (e.identities.size() != e.devices.size()) return Invalid("devices without identities");
  for (const auto& values : e.identities) {
    if (values.size() != identity) return Invalid("an identity of the wrong length");
  }
  HASE_ASSIGN_OR_RETURN(e.trees, TreesFrom(blocks, json.at("trees")));
  HASE_ASSIGN_OR_RETURN(e.size, TreesFrom(blocks, json.at("size")));
  if (e.trees.feature_count() != names.size() ||
      (e.size.tree_count() > 0 && e.size.feature_count() != names.size())) {
    return Invalid("trees over another number of features");
  }
  return e;
}

}  // namespace

Result<std::string> WriteModelFile(const ModelFile& file) {
  std::string blocks;
  const auto add = [&](const Trees& trees) -> Result<Json> {
    if (trees.tree_count() == 0) return Json::array({blocks.size(), 0});
    HASE_ASSIGN_OR_RETURN(const auto packed, Compress(trees.Serialise()));
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
                 {"shared_sigma", e.shared_sigma},
                 {"unseen_shared_sigma", e.unseen_shared_sigma}};
    HASE_ASSIGN_OR_RETURN(json["trees"], add(e.trees));
    HASE_ASSIGN_OR_RETURN(json["size"], add(e.size));
    header["ensembles"].push_back(std::move(json));
  }
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
    for (const auto& json : header.at("ensembles")) {
      auto ensemble = EnsembleFrom(json, blocks);
      if (!ensemble) return bad(ensemble.error().message);
      file.ensembles.push_back(std::move(*ensemble));
    }
  } catch (const std::exception& error) {
    return bad(fmt::format("damaged header ({})", error.what()));
  }
  return file;
}

}  // namespace hase::latency
