#include "base/json_reason.h"

#include <algorithm>

namespace hase {
namespace {

// "type must be number, but is string" → number, string.
constexpr std::string_view kMustBe = "type must be ", kButIs = ", but is ";
constexpr std::string_view kNotFound = " not found", kParse = "parse error at ";
constexpr std::string_view kCannotUse = "cannot use ", kWith = " with ";

std::string WithArticle(std::string_view noun) {
  if (noun == "null") return "null";
  const bool vowel = noun.starts_with('a') || noun.starts_with('o');
  return (vowel ? "an " : "a ") + std::string(noun);
}

}  // namespace

std::string JsonReason(std::string_view what) {
  if (what.starts_with("[json.exception")) {
    what.remove_prefix(std::min(what.find("] ") + 2, what.size()));
  }
  if (what.starts_with(kParse)) {
    what.remove_prefix(kParse.size());
    return "not JSON (" + std::string(what.substr(0, what.find(": "))) + ")";
  }
  if (what.starts_with("key ") && what.ends_with(kNotFound)) {
    what.remove_suffix(kNotFound.size());
    return std::string(what) + " is missing";
  }
  if (const size_t but = what.find(kButIs); what.starts_with(kMustBe) && but != what.npos) {
    return "expected " + WithArticle(what.substr(kMustBe.size(), but - kMustBe.size())) +
           ", found " + WithArticle(what.substr(but + kButIs.size()));
  }
  if (const size_t with = what.rfind(kWith); what.starts_with(kCannotUse) && with != what.npos) {
    return "expected an object, found " + WithArticle(what.substr(with + kWith.size()));
  }
  return std::string(what);
}

}  // namespace hase
