#include "model/zoo/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.h"
#include "model/library.h"
#include "model/onnx/file.h"
#include "model/ort/session.h"

namespace hase::model {
namespace {

namespace fs = std::filesystem;

// ONNX Runtime blocks channels by sixteen with AVX-512, by eight with AVX2.
int64_t ChannelBlock() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") ? 16 : 8;
#else
  return 16;
#endif
}

// "operator name" of each kernel that ONNX Runtime runs at full optimisation, sorted. Reorders are
// numbered there; they go by the tensor in the plain layout.
std::vector<std::string> KernelsOfOnnxRuntime(
    const fs::path& model, const fs::path& optimised,
    std::vector<std::pair<std::string, int64_t>> dimensions) {
  ort::SessionOptions options;
  options.save_optimised = optimised;
  options.dimensions = std::move(dimensions);
  const auto session = ort::Session::Create(model, options);
  EXPECT_TRUE(session) << session.error().message;
  const auto bytes = ReadFile(optimised);
  const auto file = onnx_file::OnnxFile::Parse(*bytes, optimised.string());
  std::vector<std::string> kernels;
  for (const auto& node : file->nodes()) {
    const std::string& op = node.node.op;
    const std::string name = op == "ReorderInput"    ? op + "/" + node.inputs[0]
                             : op == "ReorderOutput" ? op + "/" + node.outputs[0]
                                                     : node.node.name;
    kernels.push_back(op + " " + name);
  }
  std::ranges::sort(kernels);
  return kernels;
}

std::vector<std::string> KernelsByOurRules(const Graph& basic) {
  auto rules = LoadFusionRules("data/fusion/ort-cpu.yaml").value();
  rules.nchwc_block = ChannelBlock();
  std::vector<std::string> kernels;
  for (const Node& node : Fuse(basic, rules).nodes) {
    const std::string op = node.op.starts_with("nchwc.") ? node.op.substr(6) : node.op;
    kernels.push_back(op + " " + node.name);
  }
  std::ranges::sort(kernels);
  return kernels;
}

}  // namespace

void ExpectKernelsOfOnnxRuntime(const Graph& basic, const fs::path& model,
                                const fs::path& optimised,
                                std::vector<std::pair<std::string, int64_t>> dimensions) {
  const auto theirs = KernelsOfOnnxRuntime(model, optimised, std::move(dimensions));
  const auto ours = KernelsByOurRules(basic);
  std::vector<std::string> missing, surplus;
  std::ranges::set_difference(theirs, ours, std::back_inserter(missing));
  std::ranges::set_difference(ours, theirs, std::back_inserter(surplus));
  EXPECT_THAT(missing, testing::IsEmpty());
  EXPECT_THAT(surplus, testing::IsEmpty());
  EXPECT_GT(theirs.size(), 10u);
}

}  // namespace hase::model
