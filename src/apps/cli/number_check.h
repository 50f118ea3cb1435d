// Checks of numbers on the command line. CLI::Range lets NaN pass: every comparison with it is
// false.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <cmath>
#include <limits>

namespace hase::cli {

// A finite number within [least, most].
inline CLI::Validator NumberIn(double least, double most) {
  const std::string wanted = most < std::numeric_limits<double>::max()
                                 ? fmt::format("{:g} to {:g}", least, most)
                                 : fmt::format("{:g} up", least);
  return {[=](std::string& text) {
            double value = 0;
            if (CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value >= least &&
                value <= most) {
              return std::string();
            }
            return fmt::format("'{}' is no number from {}", text, wanted);
          },
          "", ""};
}
inline CLI::Validator NumberFrom(double least) {
  return NumberIn(least, std::numeric_limits<double>::max());
}

}  // namespace hase::cli
