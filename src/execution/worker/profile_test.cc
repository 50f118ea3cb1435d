// Measuring on real workers and small models; the arithmetic of reconciling apart.
#include "execution/worker/profile.h"

#include <gtest/gtest.h>

#include "execution/worker/bench.h"
#include "execution/worker/bench_graphs.h"

namespace hase::execution {
namespace {

Partition OneCore(MilliShare quota = kWholeDevice) {
  auto partition = Partition::Make({.cores = {0}, .quota = quota});
  EXPECT_TRUE(partition);
  return std::move(*partition);
}

model::Kernel Named(const std::string& name) {
  model::Kernel kernel;
  kernel.name = name;
  return kernel;
}

TEST(MedianNodes, TakesEachNodesMiddleRoundAndAddsUpRuns) {
  const auto round = [](double a, double b) {
    std::vector<model::ort::NodeTime> nodes(2);
    nodes[0].name = "a";
    nodes[0].p50_us = a;
    nodes[0].runs = 5;
    nodes[1].name = "b";
    nodes[1].p50_us = b;
    nodes[1].runs = 7;
    return nodes;
  };
  const auto nodes = MedianNodes({round(10, 300), round(30, 100), round(20, 200)});
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_DOUBLE_EQ(nodes[0].p50_us, 20);
  EXPECT_DOUBLE_EQ(nodes[1].p50_us, 200);
  EXPECT_EQ(nodes[1].runs, 21);
  EXPECT_TRUE(MedianNodes({}).empty());
}

TEST(Reconcile, ScalesNodeTimesToSumToTheWhole) {
  model::ModelKernels kernels;
  kernels.kernels = {Named("a"), Named("b"), Named("gone")};
  const std::vector<model::ort::NodeTime> nodes = {
      {.name = "a",
       .op = "Conv",
       .provider = "",
       .p10_us = 90,
       .p50_us = 100,
       .p90_us = 120,
       .runs = 5},
      {.name = "b",
       .op = "Relu",
       .provider = "",
       .p10_us = 50,
       .p50_us = 50,
       .p90_us = 50,
       .runs = 5},
      {.name = "extra",
       .op = "Reorder",
       .provider = "",
       .p10_us = 50,
       .p50_us = 50,
       .p90_us = 50,
       .runs = 5},
  };
  const auto result = Reconcile(kernels, nodes, 120);
  ASSERT_EQ(result.kernels.size(), 2u);
  EXPECT_EQ(result.missing, 1);
  EXPECT_DOUBLE_EQ(result.unmatched, 0.25);
  EXPECT_DOUBLE_EQ(result.factor, 0.6);  // 120 of a profiled 200
  EXPECT_DOUBLE_EQ(result.kernels[0].latency_us, 80);
  EXPECT_DOUBLE_EQ(result.kernels[1].latency_us, 40);
  EXPECT_DOUBLE_EQ(result.kernels[0].spread, 0.3);
  EXPECT_TRUE(Reconcile(kernels, {}, 120).kernels.empty());
}

// ONNX Runtime numbers its reorders as it likes: they are told by operator and output shape.
TEST(Reconcile, KnowsReordersByOperatorAndOutputShape) {
  model::ModelKernels kernels;
  const auto add = [&](std::string name, std::string op, model::Shape output) {
    kernels.kernels.push_back(Named(name));
    kernels.kernels.back().op = std::move(op);
    kernels.kernels.back().output = std::move(output);
  };
  add("ReorderInput/x", "ReorderInput", {1, 16, 8, 8});
  add("a", "Conv", {1, 16, 8, 8});
  add("ReorderOutput/y", "ReorderOutput", {1, 16, 8, 8});
  add("ReorderOutput/z", "ReorderOutput", {1, 16, 4, 4});
  add("ReorderOutput/none", "ReorderOutput", {1, 16, 2, 2});
  const auto node = [](std::string name, std::string op, double us, model::Shape output) {
    model::ort::NodeTime time;
    time.name = std::move(name);
    time.op = std::move(op);
    time.p50_us = us;
    time.output = std::move(output);
    return time;
  };
  const auto result = Reconcile(
      kernels,
      {node("ReorderInput", "ReorderInput", 1, {1, 16, 8, 8}), node("a", "Conv", 2, {1, 16, 8, 8}),
       node("ReorderOutput", "ReorderOutput", 3, {1, 16, 4, 4}),
       node("ReorderOutput_token_9", "ReorderOutput", 4, {1, 16, 8, 8})},
      10);
  EXPECT_EQ(result.missing, 1);
  EXPECT_DOUBLE_EQ(result.unmatched, 0);
  ASSERT_EQ(result.kernels.size(), 4u);
  EXPECT_DOUBLE_EQ(result.kernels[0].latency_us, 1);
  EXPECT_DOUBLE_EQ(result.kernels[2].latency_us, 4);
  EXPECT_DOUBLE_EQ(result.kernels[3].latency_us, 3);
}

TEST(Measure, RunsAsOftenAsAskedAndKeepsToTheTimeLimit) {
  const Partition partition = OneCore();
  LoadRequest load;
  load.model = "tests/models/steady.onnx";
  MeasureOptions options;
  options.min_runs = 7;
  options.min_time = Nanos(0);
  const auto seven = Measure(partition, load, options);
  ASSERT_TRUE(seven) << seven.error().message;
  EXPECT_EQ(seven->runs, 7);
  EXPECT_LE(seven->p10, seven->p50);
  EXPECT_LE(seven->p50, seven->p90);
  EXPECT_GT(seven->loaded.load, Nanos(0));
  EXPECT_TRUE(seven->nodes.empty());
  options.max_time = Nanos(1);
  EXPECT_EQ(Measure(partition, load, options)->runs, 1);
  load.model = "tests/models/broken.onnx";
  const auto broken = Measure(partition, load, options);
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message.find("broken.onnx"), std::string::npos);
}

TEST(ProfileModel, KernelsCarryTheirGeometryAndSumToTheModel) {
  const Partition partition = OneCore();
  LoadRequest load;
  load.model = "tests/models/steady.onnx";
  load.profile_prefix = testing::TempDir() + "/nodes";
  const auto names = Measure(partition, load, {});
  ASSERT_TRUE(names) << names.error().message;
  model::ModelKernels kernels;
  kernels.model = "steady";
  for (const auto& node : names->nodes) kernels.kernels.push_back(Named(node.name));
  for (auto& kernel : kernels.kernels) kernel.inputs = {{1, 2}};
  ProfileRequest request;
  request.onnx = "tests/models/steady.onnx";
  request.kernels = &kernels;
  request.device = "cpu-1c-q1";
  request.measure.min_time = FromMillis(50);
  request.scratch = testing::TempDir();
  const auto result = ProfileModel(partition, request);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->kernels.size(), kernels.kernels.size());
  EXPECT_EQ(result->missing, 0);
  EXPECT_DOUBLE_EQ(result->unmatched, 0);
  EXPECT_EQ(result->whole.model, "steady");
  double sum = 0;
  for (const auto& sample : result->kernels) {
    EXPECT_EQ(sample.device, "cpu-1c-q1");
    EXPECT_FALSE(sample.kernel.inputs.empty());
    sum += sample.latency_us;
  }
  EXPECT_NEAR(sum, result->whole.latency_us, 1e-6 * sum);
  EXPECT_TRUE(result->whole.whole_model);
  EXPECT_GT(result->whole.memory_load, MiB(1));
  EXPECT_GT(result->whole.memory_run, MiB(1));
  EXPECT_GT(result->whole.load_time, Nanos(0));
}

TEST(ProfileModel, GivesNoKernelsWhereTheListIsOfAnotherGraph) {
  const Partition partition = OneCore();
  model::ModelKernels kernels;
  kernels.kernels = {Named("not in this model")};
  ProfileRequest request;
  request.onnx = "tests/models/steady.onnx";
  request.kernels = &kernels;
  request.measure.min_time = FromMillis(5);
  request.scratch = testing::TempDir();
  const auto result = ProfileModel(partition, request);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->kernels.empty());
  EXPECT_DOUBLE_EQ(result->unmatched, 1);
  EXPECT_EQ(result->missing, 1);
  EXPECT_GT(result->whole.latency_us, 0);
}

TEST(BenchGraph, LoadsAndRunsInOnnxRuntime) {
  for (const auto& bench : cluster::MicroBenchmarkList(cluster::DeviceKind::kCpu)) {
    SCOPED_TRACE(bench.name);
    if (bench.bytes > (32 << 20)) continue;
    auto session = model::ort::Session::Create(BenchGraph(bench, 3), std::string(bench.name), {});
    ASSERT_TRUE(session) << session.error().message;
    ASSERT_TRUE(session->Prepare(1));
    EXPECT_TRUE(session->Run());
  }
}

TEST(RunMicroBenchmarks, FillsEveryFieldWithinReason) {
  const Partition partition = OneCore();
  BenchOptions options;
  options.scratch = testing::TempDir();
  options.time = FromMillis(5);
  int steps = 0;
  options.progress = [&](std::string_view) { ++steps; };
  const auto bench = RunMicroBenchmarks(partition, options);
  ASSERT_TRUE(bench) << bench.error().message;
  EXPECT_EQ(steps, 10);
  EXPECT_TRUE(bench->measured);
  EXPECT_EQ(bench->date.size(), 20u);
  for (const double gflops : {bench->gemm_small, bench->gemm_medium, bench->gemm_large,
                              bench->conv3x3, bench->conv1x1, bench->depthwise}) {
    EXPECT_GT(gflops, 0.1);
    EXPECT_LT(gflops, 5000);  // no single core does this
  }
  for (const double gb_s : {bench->copy_small, bench->copy_medium, bench->copy_large}) {
    EXPECT_GT(gb_s, 0.05);
    EXPECT_LT(gb_s, 1000);
  }
  EXPECT_GT(bench->launch_us, 0.01);
  EXPECT_LT(bench->launch_us, 1000);
}

}  // namespace
}  // namespace hase::execution
