#include "model/reuse.h"

#include <gtest/gtest.h>

namespace hase::model {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Elements of a tensor of so many MiB.
Tensor OfMiB(int64_t mib, bool constant = false) {
  return {{{.fixed = mib * kMiB / 4}}, ElementType::kFloat, constant};
}

Node Op(const std::string& op, std::vector<int> inputs, int output) {
  Node node;
  node.name = node.op = op;
  node.inputs = std::move(inputs);
  node.outputs = {output};
  return node;
}

std::vector<Reuse> Of(const Graph& graph) {
  BufferPlan plan(graph, Precision::kFp32, 1);
  EXPECT_TRUE(plan.Make());
  return ReuseOf(graph, plan, Precision::kFp32, 1);
}

// Concat of one: a copy that takes no buffer over.
TEST(Reuse, WhatWasJustWrittenIsNearAndWhatALargeKernelDroveOutIsFar) {
  Graph graph;
  graph.tensors = {OfMiB(2), OfMiB(2), OfMiB(24), OfMiB(24), OfMiB(2)};
  graph.inputs = {0, 2};
  graph.outputs = {3, 4};
  graph.nodes = {Op("Concat", {0}, 1), Op("Concat", {2}, 3), Op("Concat", {1}, 4)};
  const auto reuse = Of(graph);
  ASSERT_EQ(reuse.size(), 3u);
  // Read again after 48 MiB of the large copy, and its own two.
  EXPECT_NEAR(static_cast<double>(reuse[2].activations) / kMiB, 50, 4);
  Graph chain = graph;
  std::swap(chain.nodes[1], chain.nodes[2]);
  EXPECT_NEAR(static_cast<double>(Of(chain)[1].activations) / kMiB, 4, 1);
  EXPECT_EQ(reuse[0].weights, 0);
}

// A run goes through everything, so nothing is further away than the whole of it.
TEST(Reuse, ASmallModelStaysWarm) {
  Graph graph;
  graph.tensors = {OfMiB(1), OfMiB(1, true), OfMiB(1)};
  graph.inputs = {0};
  graph.outputs = {2};
  graph.nodes = {Op("MatMul", {0, 1}, 2)};
  const auto reuse = Of(graph);
  for (const int64_t d : {reuse[0].activations, reuse[0].weights, reuse[0].output}) {
    EXPECT_GE(d, kLeastReuse);
    EXPECT_LE(d, 4 * kMiB);
  }
}

// Buffers that are taken over are written where they were read.
TEST(Reuse, AnElementwiseKernelWritesWhatItJustRead) {
  Graph graph;
  graph.tensors = {OfMiB(16), OfMiB(16), OfMiB(16)};
  graph.inputs = {0};
  graph.outputs = {2};
  graph.nodes = {Op("Concat", {0}, 1), Op("Relu", {1}, 2)};
  const auto reuse = Of(graph);
  EXPECT_EQ(reuse[1].output, kLeastReuse);
  EXPECT_GT(reuse[0].output, 16 * kMiB);
}

TEST(Reuse, HugeTensorsAreWalkedCoarsely) {
  Graph graph;
  graph.tensors = {OfMiB(1 << 20), OfMiB(1 << 20)};
  graph.inputs = {0};
  graph.outputs = {1};
  graph.nodes = {Op("Concat", {0}, 1)};
  EXPECT_EQ(Of(graph)[0].activations, kMostReuse);
}

}  // namespace
}  // namespace hase::model
