#include "apps/cli/dimension_flag.h"

#include <fmt/format.h>

#include <charconv>

namespace hase::cli {

Result<model::Dimensions> ParseDimensions(const std::vector<std::string>& texts) {
  model::Dimensions dimensions;
  for (const auto& text : texts) {
    const size_t equals = text.rfind('=');
    const char* last = text.data() + text.size();
    int64_t value = 0;
    const bool named = equals != std::string::npos && equals > 0;
    const auto [end, error] = std::from_chars(named ? text.data() + equals + 1 : last, last, value);
    if (!named || error != std::errc() || end != last || value < 1) {
      return Usage(fmt::format("--dim {}: write NAME=SIZE with a size of at least 1", text));
    }
    dimensions.emplace_back(text.substr(0, equals), value);
  }
  return dimensions;
}

}  // namespace hase::cli
