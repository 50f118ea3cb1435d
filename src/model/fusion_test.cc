#include "model/fusion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hase::model {
namespace {

using testing::ElementsAre;

FusionRule Rule(std::string name, const std::vector<std::string>& lines) {
  FusionRule rule{
      .name = std::move(name), .pattern = {}, .as = {}, .root = {}, .named = {}, .activation = {}};
  for (const auto& line : lines) rule.pattern.push_back(ParsePatternNode(line).value());
  return rule;
}

// Two convolutions summed, then ReLU; tensors: 0 input, 1 weight, 2–3 conv outputs, 4 sum, 5 out.
Graph Residual() {
  Graph graph;
  graph.tensors.assign(6, Tensor{{{0, 1}, {8, 0}, {4, 0}, {4, 0}}, ElementType::kFloat, false});
  graph.tensors[1] = Tensor{{{8, 0}, {8, 0}, {1, 0}, {1, 0}}, ElementType::kFloat, true};
  graph.inputs = {0};
  graph.input_names = {"x"};
  graph.outputs = {5};
  const auto node = [](std::string name, std::string op, std::vector<int> in, int out) {
    Node made;
    made.name = std::move(name);
    made.op = std::move(op);
    made.inputs = std::move(in);
    made.outputs = {out};
    return made;
  };
  graph.nodes = {node("a", "Conv", {0, 1}, 2), node("b", "Conv", {0, 1}, 3),
                 node("sum", "Add", {2, 3}, 4), node("relu", "Relu", {4}, 5)};
  return graph;
}

std::vector<std::string> Ops(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes) {
    std::string op;
    for (const auto& part : node.parts) op += (op.empty() ? "" : "+") + part;
    ops.push_back(op.empty() ? node.op : op);
  }
  return ops;
}

TEST(Fusion, JoinsAConvolutionWithItsResidualSumAndActivation) {
  FusionRules rules;
  rules.rules = {Rule("r", {"t = Conv(...)", "u = Add(t, r)", "y = Relu(u)"})};
  const Graph fused = Fuse(Residual(), rules);
  ASSERT_TRUE(fused.Check()) << fused.Check().error().message;
  EXPECT_THAT(Ops(fused), ElementsAre("Conv", "Conv+Add+Relu"));
  EXPECT_TRUE(fused.nodes[1].fused_add);
  EXPECT_EQ(fused.nodes[1].activation, "relu");
  EXPECT_THAT(fused.nodes[1].inputs, ElementsAre(0, 1, 3));
}

TEST(Fusion, LeavesWhatOthersStillRead) {
  Graph graph = Residual();
  graph.outputs.push_back(2);  // the first convolution's output is wanted outside
  FusionRules rules;
  rules.rules = {Rule("r", {"t = Conv(...)", "u = Add(t, r)", "y = Relu(u)"})};
  const Graph fused = Fuse(graph, rules);
  EXPECT_THAT(Ops(fused), ElementsAre("Conv", "Conv+Add+Relu"));
  EXPECT_EQ(fused.nodes[1].name, "b");
}

TEST(Fusion, SilentOperatorsStayForTheirBuffers) {
  FusionRules rules;
  rules.silent = {"Relu"};
  const Graph fused = Fuse(Residual(), rules);
  EXPECT_EQ(fused.nodes.size(), 4u);
  EXPECT_TRUE(fused.nodes[3].silent);
}

TEST(Fusion, ShippedRulesOfEveryRuntimeLoad) {
  for (const char* runtime : {"ort-cpu", "ort-cuda", "tensorrt", "pytorch"}) {
    const auto rules = LoadFusionRules("data/fusion/" + std::string(runtime) + ".yaml");
    ASSERT_TRUE(rules) << rules.error().message;
    EXPECT_EQ(ToString(rules->runtime), runtime);
  }
}

TEST(Fusion, BadPatternsAreRefused) {
  for (const char* text :
       {"Conv(x)", "y = Conv", "y = Conv(x", "y = Conv(..., x)", "y = Conv(x,,)"}) {
    EXPECT_FALSE(ParsePatternNode(text)) << text;
  }
}

}  // namespace
}  // namespace hase::model
