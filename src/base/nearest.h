// The names that somebody who wrote one wrongly may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hase {

// Letters to insert, remove or change until `a` is `b`.
size_t EditDistance(std::string_view a, std::string_view b);
// The three of `known` nearest to `name`: "a, b, c".
std::string NearestNames(std::string_view name, const std::vector<std::string>& known);

}  // namespace hase
