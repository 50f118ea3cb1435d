// A kernel's shapes and window as short text: in samples.db and in recordings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/kernel.h"

namespace hase::latency {

std::string ShapeText(const model::Shape& shape);                 // "1x64x56x56"
model::Shape ParseShape(std::string_view text);                   // what is no number separates
std::string InputsText(const std::vector<model::Shape>& inputs);  // shapes with ; between
std::vector<model::Shape> ParseInputs(std::string_view text);
std::string WindowText(const model::Window& window);  // eleven numbers with commas
model::Window ParseWindow(std::string_view text);     // the default unless there are eleven

}  // namespace hase::latency
