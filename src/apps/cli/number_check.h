// Checks of numbers on the command line. CLI::Range lets NaN pass: every comparison with it is
// false.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <cmath>
#include <string>

namespace hase::cli {

// A finite number within [least, most].
inline CLI::Validator NumberIn(double least, double most) {
  return {[=](std::string& text) {
            double value = 0;
            if (CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value >= least &&
                value <= most) {
              return std::string();
            }
            return fmt::format("'{}' is no number from {:g} to {:g}", text, least, most);
          },
          "", ""};
}

}  // namespace hase::cli
