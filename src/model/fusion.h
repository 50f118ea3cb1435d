// What a runtime makes of the basic graph before it runs it: patterns that become one kernel, and
// data layouts. The rules are data (data/fusion/RUNTIME.yaml, docs/formats.md "Fusion rules"): each
// is a small pattern of nodes, matched in file order over the whole graph.
//
// A match replaces its nodes by one that carries them as `parts`; everything inside a match is
// read by nobody outside. The ort-cpu rules are tested node by node against ONNX Runtime's own
// optimised graph; the others cannot be checked on a machine without a GPU and say so.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/graph.h"

namespace hase::model {

// One node of a pattern: `result = Op1|Op2(argument, …)`.
struct PatternNode {
  std::string result;
  std::vector<std::string> ops;
  // Names of results of earlier nodes or of free inputs; "_" any input, "#" a constant.
  std::vector<std::string> arguments;
  bool open_ended = false;  // more inputs may follow ("…")
};

struct FusionRule {
  std::string name;
  std::vector<PatternNode> pattern;
  std::string as;    // the operator name that later rules see; empty = the first node's
  std::string root;  // the operator whose cost is counted; empty = the first node's
  // What the kernel is called: "{first}" and "{last}" stand for the matched nodes' names; empty =
  // the first's.
  std::string named;
  std::string activation;  // what Kernel::activation shall say; empty = from the last node's op
};

struct FusionRules {
  Runtime runtime = Runtime::kOrtCpu;
  std::vector<std::string> silent;  // operators that leave no launch in this runtime
  std::vector<FusionRule> rules;
  // Channels per block of ONNX Runtime's blocked CPU layout (nchwc.h), which comes last; 0 = plain.
  int64_t nchwc_block = 0;
};

Result<FusionRules> LoadFusionRules(const std::filesystem::path& file);
Result<PatternNode> ParsePatternNode(std::string_view text);

// The graph as the runtime runs it.
Graph Fuse(const Graph& basic, const FusionRules& rules);

}  // namespace hase::model
