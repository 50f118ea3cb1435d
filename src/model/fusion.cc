#include "model/fusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/file.h"
#include "base/yaml.h"
#include "model/nchwc.h"
#include "model/operators.h"

namespace hase::model {
namespace {

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.emplace_back(Trim(text.substr(0, at)));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

bool Commutes(std::string_view op) { return op == "Add" || op == "Mul"; }

// Finds one rule's matches in a graph. The first pattern node is tried at every node in execution
// order; each further one is sought among the readers of a tensor that is already bound, with
// backtracking. Patterns are a handful of nodes, so this is linear in practice.
class Matcher {
 public:
  Matcher(const Graph& graph, const FusionRule& rule)
      : graph_(graph), rule_(rule), uses_(graph.CountUses()), readers_(graph.tensors.size()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const int input : graph.nodes[i].inputs) {
        if (input == kAbsent) continue;
        auto& readers = readers_[static_cast<size_t>(input)];
        if (readers.empty() || readers.back() != i) readers.push_back(i);
      }
    }
  }

  // Node indices by pattern position, empty if the pattern does not match here.
  std::vector<size_t> MatchAt(size_t node, const std::vector<bool>& taken) {
    taken_ = &taken;
    matched_.clear();
    bound_.clear();
    return Extend(node) ? matched_ : std::vector<size_t>{};
  }

 private:
  const Tensor& TensorAt(int index) const { return graph_.tensors[static_cast<size_t>(index)]; }

  // Tries `node` at the next pattern position, then the rest of the pattern.
  bool Extend(size_t node) {
    const PatternNode& wanted = rule_.pattern[matched_.size()];
    const Node& found = graph_.nodes[node];
    if ((*taken_)[node] || found.outputs.empty() || found.silent ||
        std::ranges::find(wanted.ops, found.op) == wanted.ops.end() ||
        std::ranges::find(matched_, node) != matched_.end()) {
      return false;
    }
    if (TryInputs(node, wanted, found.inputs)) return true;
    if (!Commutes(found.op) || found.inputs.size() != 2) return false;
    return TryInputs(node, wanted, {found.inputs[1], found.inputs[0]});
  }

  bool TryInputs(size_t node, const PatternNode& wanted, const std::vector<int>& inputs) {
    const auto before = bound_;
    matched_.push_back(node);
    if (BindInputs(wanted, inputs)) {
      bound_[wanted.result] = graph_.nodes[node].outputs[0];
      if (Rest()) return true;
    }
    matched_.pop_back();
    bound_ = before;
    return false;
  }

  bool BindInputs(const PatternNode& wanted, const std::vector<int>& inputs) {
    if (inputs.size() < wanted.arguments.size()) return false;
    if (inputs.size() > wanted.arguments.size() && !wanted.open_ended) return false;
    for (size_t i = 0; i < wanted.arguments.size(); ++i) {
      const std::string& argument = wanted.arguments[i];
      if (argument == "_") continue;
      if (inputs[i] == kAbsent) return false;
      if (argument == "#") {
        if (!TensorAt(inputs[i]).constant) return false;
        continue;
      }
      const auto [entry, fresh] = bound_.try_emplace(argument, inputs[i]);
      if (!fresh && entry->second != inputs[i]) return false;
      if (fresh && TensorAt(inputs[i]).constant) return false;
    }
    return true;
  }

  bool Rest() {
    if (matched_.size() == rule_.pattern.size()) return IsClosed();
    for (const std::string& argument : rule_.pattern[matched_.size()].arguments) {
      const auto bound = bound_.find(argument);
      if (bound == bound_.end()) continue;
      for (const size_t reader : readers_[static_cast<size_t>(bound->second)]) {
        if (Extend(reader)) return true;
      }
      return false;
    }
    return false;
  }

  // Nobody outside the match may read what is made inside, but for the last node's outputs.
  bool IsClosed() const {
    std::unordered_map<int, int> inside;
    for (const size_t node : matched_) {
      for (const int input : graph_.nodes[node].inputs) ++inside[input];
    }
    for (const size_t node : matched_) {
      if (node == matched_.back()) continue;
      for (const int output : graph_.nodes[node].outputs) {
        if (output == kAbsent) continue;
        const auto reads = inside.find(output);
        const int count = reads == inside.end() ? 0 : reads->second;
        if (uses_[static_cast<size_t>(output)] != count) return false;
      }
    }
    return true;
  }

  const Graph& graph_;
  const FusionRule& rule_;
  std::vector<int> uses_;
  std::vector<std::vector<size_t>> readers_;
  const std::vector<bool>* taken_ = nullptr;
  std::vector<size_t> matched_;
  std::unordered_map<std::string, int> bound_;
};

std::string Named(std::string text, const std::string& first, const std::string& last) {
  for (const auto& [mark, name] : {std::pair("{first}", &first), std::pair("{last}", &last)}) {
    if (const size_t at = text.find(mark); at != std::string::npos) {
      text.replace(at, std::string_view(mark).size(), *name);
    }
  }
  return text;
}

// One node in place of the matched ones.
Node Merge(const Graph& graph, const FusionRule& rule, const std::vector<size_t>& matched) {
  const Node& first = graph.nodes[matched.front()];
  const Node& last = graph.nodes[matched.back()];
  Node merged = first;
  merged.inputs.clear();
  merged.parts.clear();
  std::vector<int> made;
  for (const size_t index : matched) {
    for (const int output : graph.nodes[index].outputs) made.push_back(output);
  }
  const bool product = FindOperator(first.cost_op()).op_class <= OpClass::kGemm;
  for (const size_t index : matched) {
    const Node& part = graph.nodes[index];
    if (part.parts.empty()) merged.parts.push_back(part.op);
    std::ranges::copy(part.parts, std::back_inserter(merged.parts));
    for (const int input : part.inputs) {
      const bool inside = input != kAbsent && std::ranges::find(made, input) != made.end();
      const bool known =
          input != kAbsent && std::ranges::find(merged.inputs, input) != merged.inputs.end();
      if (inside || (known && index != matched.front())) continue;
      merged.inputs.push_back(input);
      if (product && index != matched.front() && part.op == "Add" && input != kAbsent &&
          !graph.tensors[static_cast<size_t>(input)].constant) {
        merged.fused_add = true;
      }
    }
  }
  merged.outputs = last.outputs;
  merged.output_names = last.output_names;
  if (!rule.named.empty()) merged.name = Named(rule.named, first.name, last.name);
  if (!rule.as.empty()) merged.op = rule.as;
  if (!rule.root.empty()) merged.root = rule.root;
  if (product) {
    const std::string activation =
        rule.activation.empty() ? ActivationName(last.op) : rule.activation;
    if (!activation.empty()) merged.activation = activation;
  }
  return merged;
}

// Applies one rule everywhere. A merged node stands where its last part stood: all its inputs are
// ready there, and nobody reads its output earlier.
void Apply(const FusionRule& rule, Graph& graph) {
  std::vector<bool> taken(graph.nodes.size(), false);
  std::unordered_map<size_t, Node> merged;  // by the index of the last part
  Matcher matcher(graph, rule);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto matched = matcher.MatchAt(i, taken);
    if (matched.empty()) continue;
    merged.emplace(*std::ranges::max_element(matched), Merge(graph, rule, matched));
    for (const size_t node : matched) taken[node] = true;
  }
  if (merged.empty()) return;
  std::vector<Node> nodes;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (const auto here = merged.find(i); here != merged.end()) {
      nodes.push_back(std::move(here->second));
    } else if (!taken[i]) {
      nodes.push_back(std::move(graph.nodes[i]));
    }
  }
  graph.nodes = std::move(nodes);
}

Result<FusionRule> ReadRule(const Yaml& yaml) {
  HASE_RETURN_IF_ERROR(yaml.CheckKeys({"name", "pattern", "as", "root", "named", "activation"}));
  FusionRule rule;
  HASE_ASSIGN_OR_RETURN(rule.name, yaml.Text("name"));
  HASE_ASSIGN_OR_RETURN(rule.as, yaml.TextOr("as", ""));
  HASE_ASSIGN_OR_RETURN(rule.root, yaml.TextOr("root", ""));
  HASE_ASSIGN_OR_RETURN(rule.named, yaml.TextOr("named", ""));
  HASE_ASSIGN_OR_RETURN(rule.activation, yaml.TextOr("activation", ""));
  HASE_ASSIGN_OR_RETURN(const Yaml pattern, yaml.Get("pattern"));
  HASE_ASSIGN_OR_RETURN(const auto lines, pattern.Items());
  for (const Yaml& line : lines) {
    HASE_ASSIGN_OR_RETURN(const std::string text, line.Text());
    auto node = ParsePatternNode(text);
    if (!node) return Invalid(fmt::format("{}: {}", line.Where(), node.error().message));
    rule.pattern.push_back(std::move(*node));
  }
  if (rule.pattern.empty()) return Invalid(fmt::format("{}: pattern is empty", pattern.Where()));
  return rule;
}

}  // namespace

Result<PatternNode> ParsePatternNode(std::string_view text) {
  const size_t equals = text.find('='), open = text.find('(');
  if (equals == std::string_view::npos || open == std::string_view::npos || open < equals ||
      !text.ends_with(')')) {
    return Invalid(
        fmt::format("'{}' is no pattern node; write: result = Op|Op(argument, ...)", text));
  }
  PatternNode node;
  node.result = Trim(text.substr(0, equals));
  node.ops = Split(text.substr(equals + 1, open - equals - 1), '|');
  for (auto& argument : Split(text.substr(open + 1, text.size() - open - 2), ',')) {
    if (argument == "...") {
      node.open_ended = true;
    } else if (argument.empty() || node.open_ended) {
      return Invalid(fmt::format("'{}': an argument is empty or follows '...'", text));
    } else {
      node.arguments.push_back(std::move(argument));
    }
  }
  return node;
}

Result<FusionRules> LoadFusionRules(const std::filesystem::path& file) {
  HASE_ASSIGN_OR_RETURN(const Yaml yaml, Yaml::Load(file.string()));
  HASE_RETURN_IF_ERROR(
      yaml.CheckKeys({"runtime", "checked", "layout", "block", "silent", "rules"}));
  FusionRules rules;
  HASE_ASSIGN_OR_RETURN(const std::string runtime, yaml.Text("runtime"));
  HASE_ASSIGN_OR_RETURN(rules.runtime, ParseRuntime(runtime));
  HASE_ASSIGN_OR_RETURN(const std::string layout, yaml.TextOr("layout", "nchw"));
  if (layout != "nchw" && layout != "nchwc") {
    return Invalid(
        fmt::format("{}: layout '{}' is unknown (known: nchw, nchwc)", yaml.Where(), layout));
  }
  HASE_ASSIGN_OR_RETURN(const int64_t block, yaml.IntegerOr("block", 16));
  if (block < 1 || block > 64)
    return Invalid(fmt::format("{}: block must be 1 to 64", yaml.Where()));
  rules.nchwc_block = layout == "nchwc" ? block : 0;
  if (const auto silent = yaml.Find("silent")) {
    HASE_ASSIGN_OR_RETURN(const auto items, silent->Items());
    for (const Yaml& item : items) {
      HASE_ASSIGN_OR_RETURN(std::string op, item.Text());
      rules.silent.push_back(std::move(op));
    }
  }
  if (const auto list = yaml.Find("rules")) {
    HASE_ASSIGN_OR_RETURN(const auto items, list->Items());
    for (const Yaml& item : items) {
      HASE_ASSIGN_OR_RETURN(FusionRule rule, ReadRule(item));
      rules.rules.push_back(std::move(rule));
    }
  }
  return rules;
}

Graph Fuse(const Graph& basic, const FusionRules& rules) {
  Graph graph = basic;
  for (Node& node : graph.nodes) {
    node.silent = std::ranges::find(rules.silent, node.op) != rules.silent.end();
  }
  for (const FusionRule& rule : rules.rules) Apply(rule, graph);
  return rules.nchwc_block > 0 ? ToNchwc(graph, rules.nchwc_block) : graph;
}

}  // namespace hase::model
