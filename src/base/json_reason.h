// What a JSON library's exception means, in the words of our own errors.
#pragma once

#include <string>
#include <string_view>

namespace hase {

// From nlohmann::json::exception::what(): "key 'x' is missing", "expected a number, found a
// string", "not JSON (line 1, column 5)"; other texts without the library's prefix.
std::string JsonReason(std::string_view what);

}  // namespace hase
