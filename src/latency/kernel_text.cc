#include "latency/kernel_text.h"

#include <fmt/core.h>

#include <charconv>

namespace hase::latency {

using model::Shape;

std::string ShapeText(const Shape& shape) {
  std::string text;
  for (const int64_t d : shape) text += fmt::format("{}{}", text.empty() ? "" : "x", d);
  return text;
}

Shape ParseShape(std::string_view text) {
  Shape numbers;
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    int64_t value = 0;
    const auto [next, code] = std::from_chars(p, end, value);
    if (code == std::errc()) numbers.push_back(value);
    p = code == std::errc() ? next : p + 1;
    if (p < end && code == std::errc()) ++p;  // the separator
  }
  return numbers;
}

std::string InputsText(const std::vector<Shape>& inputs) {
  std::string text;
  for (size_t i = 0; i < inputs.size(); ++i) text += (i ? ";" : "") + ShapeText(inputs[i]);
  return text;
}

std::vector<Shape> ParseInputs(std::string_view text) {
  std::vector<Shape> inputs;
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    inputs.push_back(ParseShape(text.substr(0, end)));
    text.remove_prefix(end);
    if (!text.empty()) {
      text.remove_prefix(1);
      if (text.empty()) inputs.emplace_back();
    }
  }
  return inputs;
}

std::string WindowText(const model::Window& w) {
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{}", w.kernel[0], w.kernel[1], w.stride[0],
                     w.stride[1], w.pad[0], w.pad[1], w.pad[2], w.pad[3], w.dilation[0],
                     w.dilation[1], w.groups);
}

model::Window ParseWindow(std::string_view text) {
  const auto v = ParseShape(text);
  model::Window w;
  if (v.size() != 11) return w;
  const auto at = [&](size_t i) { return static_cast<int32_t>(v[i]); };
  w.kernel = {at(0), at(1)};
  w.stride = {at(2), at(3)};
  w.pad = {at(4), at(5), at(6), at(7)};
  w.dilation = {at(8), at(9)};
  w.groups = at(10);
  return w;
}

}  // namespace hase::latency
