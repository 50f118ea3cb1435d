// The four tables of whole-model latencies, brought to zoo names.
#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "base/csv.h"
#include "base/file.h"
#include "latency/training/model_level.h"

namespace hase::latency {
namespace {

namespace fs = std::filesystem;
using model::Precision;
using model::Runtime;

// Lower case, without '-' and '_': "ResNet-50" and "resnet50" are one.
std::string Plain(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c != '-' && c != '_') {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

// The zoo's name for a network, or empty. Width multipliers other than 1 are other networks.
std::string ZooName(std::string_view name) {
  static const std::map<std::string, std::string, std::less<>> kNames = {
      {"resnet18", "resnet18"},
      {"resnet34", "resnet34"},
      {"resnet50", "resnet50"},
      {"resnet101", "resnet101"},
      {"resnet152", "resnet152"},
      {"vgg11", "vgg11"},
      {"vgg13", "vgg13"},
      {"vgg16", "vgg16"},
      {"vgg19", "vgg19"},
      {"densenet121", "densenet121"},
      {"densenet161", "densenet161"},
      {"densenet169", "densenet169"},
      {"densenet201", "densenet201"},
      {"mobilenetv1", "mobilenet_v1"},
      {"mobilenetv1100", "mobilenet_v1"},
      {"mobilenetv2", "mobilenet_v2"},
      {"mobilenetv2100", "mobilenet_v2"},
      {"mobilenetv3large100", "mobilenet_v3_large"},
      {"mobilenetv3largex10", "mobilenet_v3_large"},
      {"mobilenetv3small100", "mobilenet_v3_small"},
      {"mobilenetv3smallx10", "mobilenet_v3_small"}};
  const auto it = kNames.find(Plain(name));
  return it == kNames.end() ? std::string() : it->second;
}

struct Source {
  std::string_view folder, file;
  // Fills the row; false: not a row that is asked for.
  bool (*take)(const CsvTable& table, size_t i, ModelRow& row);
  std::string_view model_column, time_column;
};

double NumberOf(const CsvTable& table, size_t i, std::string_view column) {
  const auto value = table.Number(i, column);
  return value && *value ? **value : 0;
}

bool TakePaddle(const CsvTable& t, size_t i, ModelRow& row) {
  // No crop written means 224.
  const auto crop = t.Text(i, "crop");
  if (!t.Text(i, "doc_generation").starts_with("zh_CN")) return false;
  if (!crop.empty() && crop != "224") return false;
  row.device = "V100-SXM2-32GB";
  row.runtime = Runtime::kTensorRt;
  row.batch = static_cast<int64_t>(NumberOf(t, i, "batch"));
  return t.Text(i, "precision") == "fp32";
}
bool TakePytorch(const CsvTable& t, size_t i, ModelRow& row) {
  row.device = t.Text(i, "gpu");
  row.batch = static_cast<int64_t>(NumberOf(t, i, "batch_total"));
  row.precision = t.Text(i, "dtype") == "fp16" ? Precision::kFp16 : Precision::kFp32;
  return t.Text(i, "n_gpus") == "1" && t.Text(i, "mode") == "inference" &&
         t.Text(i, "dtype") != "fp64";
}
bool TakeTimm(const CsvTable& t, size_t i, ModelRow& row) {
  row.device = t.Text(i, "gpu");
  row.batch = static_cast<int64_t>(NumberOf(t, i, "infer_batch_size"));
  row.precision = Precision::kFp16;  // autocast
  return t.Text(i, "layout") == "nchw" && t.Text(i, "compile") == "eager" &&
         t.Text(i, "precision") == "amp" && NumberOf(t, i, "infer_img_size") == 224;
}
bool TakeTorch7(const CsvTable& t, size_t i, ModelRow& row) {
  row.device = t.Text(i, "gpu_name");
  row.batch = static_cast<int64_t>(NumberOf(t, i, "batch"));
  return t.Text(i, "use_cudnn") == "1";
}

constexpr Source kSources[] = {
    {"paddleclas", "inference_latency.csv", TakePaddle, "model", "latency_ms"},
    {"pytorch_gpu_benchmark", "summary.csv", TakePytorch, "model", "median_ms"},
    {"timm", "infer.csv", TakeTimm, "model", "infer_step_time"},
    {"cnn_benchmarks", "torch7_results.csv", TakeTorch7, "model", "forward_mean_ms"}};

Status ReadSource(const Source& source, const fs::path& folder, ModelRows& out) {
  const auto path = folder / source.file;
  if (!fs::exists(path) && !fs::exists(path.string() + ".xz")) return {};
  HASE_ASSIGN_OR_RETURN(const auto text, ReadFile(path));
  HASE_ASSIGN_OR_RETURN(const auto table, CsvTable::Parse(path.string(), text, {}, {}));
  // Several hosts or software versions of one card: the median.
  std::map<std::tuple<std::string, std::string, Precision, int64_t>,
           std::pair<ModelRow, std::vector<double>>>
      groups;
  for (size_t i = 0; i < table.rows(); ++i) {
    ModelRow row;
    row.table = source.folder;
    if (!source.take(table, i, row)) continue;
    row.model = ZooName(table.Text(i, source.model_column));
    const double ms = NumberOf(table, i, source.time_column);
    if (row.model.empty() || ms <= 0 || row.batch < 1) {
      ++out.unmapped[fmt::format("{}: {}", source.folder, table.Text(i, source.model_column))];
      continue;
    }
    auto& [kept, times] = groups[{row.device, row.model, row.precision, row.batch}];
    kept = row;
    times.push_back(ms);
  }
  for (auto& [key, value] : groups) {
    auto& [row, times] = value;
    std::ranges::sort(times);
    row.measured_ms = times[times.size() / 2];
    out.rows.push_back(row);
  }
  return {};
}

}  // namespace

Result<ModelRows> ReadModelRows(std::span<const fs::path> paths) {
  ModelRows out;
  for (const auto& path : paths) {
    std::error_code error;
    for (auto it = fs::recursive_directory_iterator(path, error);
         !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
      if (!it->is_directory(error)) continue;
      for (const auto& source : kSources) {
        if (it->path().filename() == source.folder) {
          HASE_RETURN_IF_ERROR(ReadSource(source, it->path(), out));
        }
      }
    }
  }
  if (out.rows.empty()) return Invalid("no model-level table below the paths given to --data");
  return out;
}

}  // namespace hase::latency
