// OnnxWriter: builds an ONNX file in memory and writes it. Opset 17, IR version 8 (what ONNX
// Runtime of the last years and libonnx 1.12 both read).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "model/kernel.h"

namespace hase::model::onnx_file {

using AttributeValue = std::variant<int64_t, float, std::string, std::vector<int64_t>>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;

class OnnxWriter {
 public:
  explicit OnnxWriter(const std::string& model_name);
  ~OnnxWriter();

  // Float tensors; a dimension of 0 is symbolic and named `batch_symbol`.
  void AddInput(const std::string& name, const Shape& dims, const std::string& batch_symbol);
  void AddOutput(const std::string& name, const Shape& dims, const std::string& batch_symbol);
  // `fill` writes the values straight into the file's buffer.
  void AddFloats(const std::string& name, const Shape& dims,
                 const std::function<void(std::span<float>)>& fill);
  void AddInts(const std::string& name, std::span<const int64_t> values);
  // A value that is no parameter (anchors, strides, clip bounds): a Constant node.
  void AddConstant(const std::string& name, const Shape& dims, std::span<const float> values);
  void AddNode(const std::string& name, const std::string& op,
               const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
               const Attributes& attributes = {});

  Result<std::string> Serialise() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hase::model::onnx_file
