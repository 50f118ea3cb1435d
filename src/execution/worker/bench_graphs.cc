// Field numbers are those of onnx.proto3 (ModelProto, GraphProto, NodeProto, TensorProto …).
#include "execution/worker/bench_graphs.h"

#include <fmt/core.h>

#include <cstring>
#include <vector>

namespace hase::execution {
namespace {

using cluster::MicroKind;

class Message {
 public:
  Message& Varint(int field, uint64_t value) {
    Raw(static_cast<uint64_t>(field) << 3);
    Raw(value);
    return *this;
  }
  Message& Text(int field, std::string_view text) {
    Raw(static_cast<uint64_t>(field) << 3 | 2);
    Raw(text.size());
    bytes_ += text;
    return *this;
  }
  Message& Child(int field, const Message& child) { return Text(field, child.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void Raw(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

// A float tensor's declaration; a dimension of 0 stands for the batch.
Message Value(const std::string& name, const std::vector<int64_t>& dims) {
  Message shape;
  for (const int64_t d : dims) {
    Message dim;
    if (d == 0) {
      dim.Text(2, "N");
    } else {
      dim.Varint(1, static_cast<uint64_t>(d));
    }
    shape.Child(1, dim);
  }
  const Message tensor = Message().Varint(1, 1).Child(2, shape);
  return Message().Text(1, name).Child(2, Message().Child(1, tensor));
}

Message Weights(const std::string& name, const std::vector<int64_t>& dims) {
  Message tensor;
  size_t count = 1;
  for (const int64_t d : dims) {
    tensor.Varint(1, static_cast<uint64_t>(d));
    count *= static_cast<size_t>(d);
  }
  std::string raw(count * sizeof(float), '\0');
  for (size_t i = 0; i < count; ++i) {  // small, unlike, never denormal
    const float value = 0.01f * static_cast<float>(static_cast<int>(i * 7919 % 201) - 100) + 0.003f;
    std::memcpy(raw.data() + i * sizeof(float), &value, sizeof(float));
  }
  return tensor.Varint(2, 1).Text(8, name).Text(9, raw);
}

Message Node(const std::string& op, const std::vector<std::string>& inputs,
             const std::string& output) {
  Message node;
  for (const auto& input : inputs) node.Text(1, input);
  return node.Text(2, output).Text(3, op + "_" + output).Text(4, op);
}

Message Integer(const std::string& name, int64_t value) {
  return Message().Text(1, name).Varint(3, static_cast<uint64_t>(value)).Varint(20, 2);
}
Message Integers(const std::string& name, const std::vector<int64_t>& values) {
  Message attribute;
  attribute.Text(1, name);
  for (const int64_t v : values) attribute.Varint(8, static_cast<uint64_t>(v));
  return attribute.Varint(20, 7);
}

void Gemm(Message& graph, int64_t m) {
  graph.Child(1, Node("MatMul", {"x", "w"}, "y")).Child(5, Weights("w", {m, m}));
  graph.Child(11, Value("x", {0, m, m})).Child(12, Value("y", {0, m, m}));
}

void Convolution(Message& graph, const cluster::MicroBenchmark& b) {
  const bool depthwise = b.kind == MicroKind::kDepthwise;
  const int64_t pad = b.window / 2;
  Message node = Node("Conv", {"x", "w"}, "y");
  node.Child(5, Integers("kernel_shape", {b.window, b.window}));
  node.Child(5, Integers("pads", {pad, pad, pad, pad}));
  node.Child(5, Integer("group", depthwise ? b.channels : 1));
  graph.Child(1, node);
  graph.Child(5, Weights("w", {b.channels, depthwise ? 1 : b.channels, b.window, b.window}));
  graph.Child(11, Value("x", {0, b.channels, b.size, b.size}));
  graph.Child(12, Value("y", {0, b.channels, b.size, b.size}));
}

// Joining two halves moves every byte once and computes nothing.
void Copy(Message& graph, int64_t bytes) {
  const int64_t half = bytes / 8;  // floats
  graph.Child(1, Node("Concat", {"a", "b"}, "y").Child(5, Integer("axis", 1)));
  graph.Child(11, Value("a", {0, half})).Child(11, Value("b", {0, half}));
  graph.Child(12, Value("y", {0, 2 * half}));
}

void Chain(Message& graph, int length) {
  std::string at = "x";
  for (int i = 0; i < length; ++i) {
    const std::string next = i + 1 == length ? "y" : fmt::format("t{}", i);
    // Two operators in turn, so that no optimiser may drop a pair.
    graph.Child(1, Node(i % 2 ? "Sin" : "Abs", {at}, next));
    at = next;
  }
  graph.Child(11, Value("x", {0, 16})).Child(12, Value("y", {0, 16}));
}

}  // namespace

std::string BenchGraph(const cluster::MicroBenchmark& bench, int repeat) {
  Message graph;
  graph.Text(2, bench.name);
  switch (bench.kind) {
    case MicroKind::kGemm:
      Gemm(graph, bench.m);
      break;
    case MicroKind::kConv:
    case MicroKind::kDepthwise:
      Convolution(graph, bench);
      break;
    case MicroKind::kCopy:
      Copy(graph, bench.bytes);
      break;
    case MicroKind::kLaunch:
      Chain(graph, repeat);
      break;
  }
  const Message opset = Message().Text(1, "").Varint(2, 13);
  return Message().Varint(1, 7).Text(2, "hase").Child(7, graph).Child(8, opset).bytes();
}

}  // namespace hase::execution
