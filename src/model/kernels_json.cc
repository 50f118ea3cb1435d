#include "model/kernels_json.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace hase::model {
namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "hase-kernels";
constexpr size_t kMostTensors = 1 << 20;

std::string FormatDim(const Dim& dim) {
  if (dim.per_batch == 0) return fmt::format("{}", dim.fixed);
  const std::string slope = dim.per_batch == 1 ? "N" : fmt::format("{}N", dim.per_batch);
  return dim.fixed == 0 ? slope : fmt::format("{}{:+}", slope, dim.fixed);
}

// "64", "N", "197N", "2N+1", "N-1".
std::optional<Dim> ParseDim(std::string_view text) {
  Dim dim;
  const auto read = [&](int64_t& value) {
    const bool plus = text.starts_with('+');
    if (plus) text.remove_prefix(1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return true;
  };
  if (text.starts_with('N')) {
    dim.per_batch = 1;
  } else if (!read(dim.per_batch)) {
    return std::nullopt;
  }
  if (!text.starts_with('N')) {
    std::swap(dim.fixed, dim.per_batch);
  } else {
    text.remove_prefix(1);
    if (!text.empty() && !read(dim.fixed)) return std::nullopt;
  }
  return text.empty() ? std::optional(dim) : std::nullopt;
}

// "file.json:12:5" for a byte offset.
std::string Position(std::string_view text, size_t byte) {
  size_t line = 1, column = 1;
  for (const char c : text.substr(0, std::min(byte, text.size()))) {
    column = c == '\n' ? 1 : column + 1;
    line += c == '\n' ? 1 : 0;
  }
  return fmt::format("{}:{}", line, column);
}

// Reads a JSON value with the place it stands at ("nodes[3].in"), so that complaints name it.
class Place {
 public:
  Place(const json& value, std::string where) : value_(value), where_(std::move(where)) {}

  std::unexpected<Error> Complain(std::string_view what) const {
    return Invalid(fmt::format("{}: {}", where_, what));
  }

  Status CheckKeys(std::initializer_list<std::string_view> known) const {
    if (!value_.is_object()) return Complain("must be an object");
    for (const auto& [key, ignored] : value_.items()) {
      if (key.starts_with("x_") || std::ranges::find(known, key) != known.end()) continue;
      return Complain(fmt::format("unknown key '{}' (known: {})", key, fmt::join(known, ", ")));
    }
    return {};
  }

  bool Has(const char* key) const { return value_.contains(key); }
  Result<Place> At(const char* key) const {
    if (!value_.is_object() || !value_.contains(key)) {
      return Complain(fmt::format("key '{}' is missing", key));
    }
    return Place(value_.at(key),
                 fmt::format("{}{}{}", where_, where_.ends_with(": ") ? "" : ".", key));
  }

  Result<std::string> Text() const {
    if (!value_.is_string()) return Complain("must be text");
    return value_.get<std::string>();
  }
  Result<bool> Boolean() const {
    if (!value_.is_boolean()) return Complain("must be true or false");
    return value_.get<bool>();
  }
  Result<int64_t> Integer(int64_t least, int64_t most = INT64_MAX) const {
    if (!value_.is_number_integer()) return Complain("must be an integer");
    if (value_.is_number_unsigned() && value_.get<uint64_t>() > INT64_MAX) {
      return Complain("is more than 64 bits hold");
    }
    const auto value = value_.get<int64_t>();
    if (value < least || value > most) {
      return Complain(fmt::format("is {}, must be {} to {}", value, least, most));
    }
    return value;
  }
  Result<std::vector<Place>> Items(size_t most = kMostTensors) const {
    if (!value_.is_array()) return Complain("must be a list");
    if (value_.size() > most) return Complain(fmt::format("holds more than {} items", most));
    std::vector<Place> items;
    for (size_t i = 0; i < value_.size(); ++i) {
      items.emplace_back(value_[i], fmt::format("{}[{}]", where_, i));
    }
    return items;
  }
  Result<std::vector<int>> Integers(int64_t least, int64_t most) const {
    HASE_ASSIGN_OR_RETURN(const auto items, Items());
    std::vector<int> values;
    for (const auto& item : items) {
      HASE_ASSIGN_OR_RETURN(const int64_t value, item.Integer(least, most));
      values.push_back(static_cast<int>(value));
    }
    return values;
  }
  const json& value() const { return value_; }

 private:
  const json& value_;
  std::string where_;
};

Result<Window> ReadWindow(const Place& place) {
  constexpr int kMost = 1 << 24;
  HASE_ASSIGN_OR_RETURN(const auto v, place.Integers(0, kMost));
  if (v.size() != 11) {
    return place.Complain(
        "must hold 11 integers: kernel (2), stride (2), pad (4), dilation (2), groups");
  }
  const bool positive = v[0] > 0 && v[1] > 0 && v[2] > 0 && v[3] > 0 && v[8] > 0 && v[9] > 0;
  if (!positive || v[10] < 1) return place.Complain("kernel, stride, dilation, groups must be ≥ 1");
  return Window{.kernel = {v[0], v[1]},
                .stride = {v[2], v[3]},
                .pad = {v[4], v[5], v[6], v[7]},
                .dilation = {v[8], v[9]},
                .groups = v[10]};
}

Result<Node> ReadNode(const Place& place) {
  HASE_RETURN_IF_ERROR(
      place.CheckKeys({"name", "output_names", "op", "in", "out", "window", "attributes"}));
  Node node;
  HASE_ASSIGN_OR_RETURN(const auto name, place.At("name"));
  HASE_ASSIGN_OR_RETURN(node.name, name.Text());
  node.output_names = {node.name};
  if (place.Has("output_names")) {
    node.output_names.clear();
    HASE_ASSIGN_OR_RETURN(const auto names, place.At("output_names"));
    HASE_ASSIGN_OR_RETURN(const auto items, names.Items());
    for (const auto& item : items) {
      HASE_ASSIGN_OR_RETURN(std::string output, item.Text());
      node.output_names.push_back(std::move(output));
    }
  }
  HASE_ASSIGN_OR_RETURN(const auto op, place.At("op"));
  HASE_ASSIGN_OR_RETURN(node.op, op.Text());
  HASE_ASSIGN_OR_RETURN(const auto in, place.At("in"));
  HASE_ASSIGN_OR_RETURN(node.inputs, in.Integers(kAbsent, kMostTensors));
  HASE_ASSIGN_OR_RETURN(const auto out, place.At("out"));
  HASE_ASSIGN_OR_RETURN(node.outputs, out.Integers(kAbsent, kMostTensors));
  if (place.Has("window")) {
    HASE_ASSIGN_OR_RETURN(const auto window, place.At("window"));
    HASE_ASSIGN_OR_RETURN(node.window, ReadWindow(window));
  }
  if (place.Has("attributes")) {
    HASE_ASSIGN_OR_RETURN(const auto attributes, place.At("attributes"));
    if (!attributes.value().is_object()) return attributes.Complain("must be an object");
    for (const auto& [key, ignored] : attributes.value().items()) {
      if (std::ranges::find(kKeptAttributes, key) == std::end(kKeptAttributes)) {
        return attributes.Complain(fmt::format("unknown attribute '{}' (known: {})", key,
                                               fmt::join(kKeptAttributes, ", ")));
      }
      HASE_ASSIGN_OR_RETURN(const auto attribute, attributes.At(key.c_str()));
      HASE_ASSIGN_OR_RETURN(node.attributes[key],
                            attribute.Integer(-(int64_t{1} << 32), int64_t{1} << 32));
    }
  }
  return node;
}

Status ReadHead(const Place& root, Graph& graph) {
  HASE_RETURN_IF_ERROR(
      root.CheckKeys({"format", "version", "model", "params", "opset", "fixed_batch", "inputs",
                      "input_names", "outputs", "tensors", "nodes"}));
  HASE_ASSIGN_OR_RETURN(const auto format, root.At("format"));
  if (format.value() != kFormat) {
    return format.Complain(fmt::format("is {}, must be \"{}\"", format.value().dump(), kFormat));
  }
  HASE_ASSIGN_OR_RETURN(const auto version, root.At("version"));
  HASE_ASSIGN_OR_RETURN(const int64_t number, version.Integer(0));
  if (number != kKernelsVersion) {
    return version.Complain(
        fmt::format("is {}, this program reads version {}; write the file again "
                    "with hase inspect -o",
                    number, kKernelsVersion));
  }
  HASE_ASSIGN_OR_RETURN(const auto model, root.At("model"));
  HASE_ASSIGN_OR_RETURN(graph.model, model.Text());
  HASE_ASSIGN_OR_RETURN(const auto params, root.At("params"));
  HASE_ASSIGN_OR_RETURN(graph.params, params.Integer(0));
  HASE_ASSIGN_OR_RETURN(const auto opset, root.At("opset"));
  HASE_ASSIGN_OR_RETURN(const int64_t opset_number, opset.Integer(1, 1000));
  graph.opset = static_cast<int>(opset_number);
  if (root.Has("fixed_batch")) {
    HASE_ASSIGN_OR_RETURN(const auto fixed, root.At("fixed_batch"));
    HASE_ASSIGN_OR_RETURN(graph.fixed_batch, fixed.Integer(1));
  }
  return {};
}

Status ReadBody(const Place& root, Graph& graph) {
  HASE_ASSIGN_OR_RETURN(const auto inputs, root.At("inputs"));
  HASE_ASSIGN_OR_RETURN(graph.inputs, inputs.Integers(0, kMostTensors));
  HASE_ASSIGN_OR_RETURN(const auto outputs, root.At("outputs"));
  HASE_ASSIGN_OR_RETURN(graph.outputs, outputs.Integers(0, kMostTensors));
  HASE_ASSIGN_OR_RETURN(const auto names, root.At("input_names"));
  HASE_ASSIGN_OR_RETURN(const auto name_items, names.Items());
  for (const auto& item : name_items) {
    HASE_ASSIGN_OR_RETURN(std::string name, item.Text());
    graph.input_names.push_back(std::move(name));
  }
  HASE_ASSIGN_OR_RETURN(const auto tensors, root.At("tensors"));
  HASE_ASSIGN_OR_RETURN(const auto tensor_items, tensors.Items());
  for (const auto& item : tensor_items) {
    HASE_ASSIGN_OR_RETURN(const std::string text, item.Text());
    auto tensor = ParseTensor(text);
    if (!tensor) {
      return item.Complain(
          fmt::format("'{}' is no tensor; write for example \"float32[N,3,224,224]\" or "
                      "\"const float32[64]\"",
                      text));
    }
    graph.tensors.push_back(std::move(*tensor));
  }
  HASE_ASSIGN_OR_RETURN(const auto nodes, root.At("nodes"));
  HASE_ASSIGN_OR_RETURN(const auto node_items, nodes.Items());
  for (const auto& item : node_items) {
    HASE_ASSIGN_OR_RETURN(Node node, ReadNode(item));
    graph.nodes.push_back(std::move(node));
  }
  return {};
}

std::string Quoted(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string FormatNode(const Node& node) {
  std::string line =
      fmt::format("{{\"name\":{},\"op\":{},\"in\":[{}],\"out\":[{}]", Quoted(node.name),
                  Quoted(node.op), fmt::join(node.inputs, ","), fmt::join(node.outputs, ","));
  if (node.output_names != std::vector{node.name}) {
    std::vector<std::string> names;
    for (const auto& name : node.output_names) names.push_back(Quoted(name));
    line += fmt::format(",\"output_names\":[{}]", fmt::join(names, ","));
  }
  if (node.window) {
    const Window& w = *node.window;
    line += fmt::format(",\"window\":[{},{},{},{},{}]", fmt::join(w.kernel, ","),
                        fmt::join(w.stride, ","), fmt::join(w.pad, ","), fmt::join(w.dilation, ","),
                        w.groups);
  }
  if (!node.attributes.empty()) line += ",\"attributes\":" + json(node.attributes).dump();
  return line + "}";
}

}  // namespace

std::string FormatTensor(const Tensor& tensor) {
  std::string dims;
  for (const Dim& dim : tensor.shape) dims += (dims.empty() ? "" : ",") + FormatDim(dim);
  return fmt::format("{}{}[{}]", tensor.constant ? "const " : "", ToString(tensor.type), dims);
}

std::optional<Tensor> ParseTensor(std::string_view text) {
  Tensor tensor;
  if (text.starts_with("const ")) {
    tensor.constant = true;
    text.remove_prefix(6);
  }
  const size_t bracket = text.find('[');
  if (bracket == std::string_view::npos || !text.ends_with(']')) return std::nullopt;
  const auto type = ParseElementType(text.substr(0, bracket));
  if (!type) return std::nullopt;
  tensor.type = *type;
  std::string_view dims = text.substr(bracket + 1, text.size() - bracket - 2);
  while (!dims.empty()) {
    const size_t comma = dims.find(',');
    const auto dim = ParseDim(dims.substr(0, comma));
    if (!dim) return std::nullopt;
    tensor.shape.push_back(*dim);
    if (comma == std::string_view::npos) break;
    dims.remove_prefix(comma + 1);
    if (dims.empty()) return std::nullopt;
  }
  return tensor;
}

Result<Graph> ReadKernelsJson(std::string_view text, const std::string& name) {
  json document;
  try {
    document = json::parse(text);
  } catch (const json::parse_error& e) {
    return Invalid(fmt::format("{}:{}: not valid JSON", name, Position(text, e.byte)));
  } catch (const json::exception&) {
    return Invalid(fmt::format("{}: a number is too large", name));
  }
  Graph graph;
  const Place root(document, name + ": ");
  HASE_RETURN_IF_ERROR(ReadHead(root, graph));
  HASE_RETURN_IF_ERROR(ReadBody(root, graph));
  if (const auto sound = graph.Check(); !sound) {
    return Invalid(fmt::format("{}: {}", name, sound.error().message));
  }
  return graph;
}

std::string WriteKernelsJson(const Graph& graph) {
  std::string text =
      fmt::format("{{\"format\":\"{}\",\"version\":{},\"model\":{},\"params\":{},\"opset\":{},",
                  kFormat, kKernelsVersion, Quoted(graph.model), graph.params, graph.opset);
  if (graph.fixed_batch) text += fmt::format("\"fixed_batch\":{},", *graph.fixed_batch);
  std::vector<std::string> names, tensors, nodes;
  for (const auto& name : graph.input_names) names.push_back(Quoted(name));
  for (const Tensor& tensor : graph.tensors) tensors.push_back(Quoted(FormatTensor(tensor)));
  for (const Node& node : graph.nodes) nodes.push_back(FormatNode(node));
  text += fmt::format("\n\"inputs\":[{}],\"input_names\":[{}],\"outputs\":[{}],\n",
                      fmt::join(graph.inputs, ","), fmt::join(names, ","),
                      fmt::join(graph.outputs, ","));
  text += fmt::format("\"tensors\":[\n{}],\n\"nodes\":[\n{}]}}\n", fmt::join(tensors, ",\n"),
                      fmt::join(nodes, ",\n"));
  return text;
}

}  // namespace hase::model
