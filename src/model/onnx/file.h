// OnnxFile: an ONNX model as parsed from its file and checked by us, before ONNX Runtime sees it.
// Only onnx/file.cc, onnx/check.cc and onnx/writer.cc know protobuf.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/graph.h"

namespace hase::model::onnx_file {

constexpr int kOldestOpset = 11, kNewestOpset = 21;
constexpr int64_t kUnknownDim = -1;
// Initialisers of more elements than this are weights; smaller ones may steer shapes.
constexpr int64_t kSmallElements = 1024;

struct Value {
  std::string name;
  ElementType type = ElementType::kOther;
  Shape dims;                        // kUnknownDim where symbolic
  std::vector<std::string> symbols;  // per dimension; empty if fixed or unnamed
};

struct FileNode {
  Node node;                                 // inputs and outputs left empty: they are names here
  std::vector<std::string> inputs, outputs;  // empty name = left out
  bool automatic_padding = false;            // auto_pad SAME_*: the window's pads follow shapes
  bool has_kernel_shape = false;
};

struct Initialiser {
  std::string name;
  ElementType type = ElementType::kOther;
  Shape dims;
};

class OnnxFile {
 public:
  // Reads and checks: parses, opset in range, names defined once and before use, no cycle, weights
  // of the right size, external weights regular files inside the model's folder.
  static Result<OnnxFile> Read(const std::filesystem::path& path);
  // Parses bytes that ONNX Runtime wrote; no checks beyond parsing.
  static Result<OnnxFile> Parse(std::string_view bytes, const std::string& name);
  OnnxFile(OnnxFile&&) noexcept;
  OnnxFile& operator=(OnnxFile&&) noexcept;
  ~OnnxFile();

  int opset() const;
  int64_t params() const;             // docs/formats.md, "Counting"
  std::vector<Value> inputs() const;  // without those that are initialisers
  std::vector<std::string> outputs() const;
  std::vector<Initialiser> initialisers() const;
  std::vector<FileNode> nodes() const;

  // Replaces the inputs' dimensions (kUnknownDim: symbolic, named by `symbols`). Shapes that the
  // file states for inner tensors are dropped; ONNX Runtime infers them again.
  void SetInputs(const std::vector<Value>& values);
  // The whole model.
  std::string Serialise() const;
  // The shape probe: large initialisers become inputs, every tensor an output.
  std::string SerialiseProbe() const;

 private:
  struct State;
  explicit OnnxFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hase::model::onnx_file
