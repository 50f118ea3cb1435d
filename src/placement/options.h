// Options of one policy, "key=value,key=value": each policy takes its own keys out; what is left
// over is a usage error that lists the keys that would have been understood. No shared option bag.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hase::placement {

class OptionText {
 public:
  OptionText(std::string_view policy, std::string_view text);

  // Each stores the value of `key`, if given, in `out`; a value outside the range is remembered as
  // the first error. Call Finish() at the end.
  void Number(std::string_view key, double lo, double hi, double& out);
  void Integer(std::string_view key, int64_t lo, int64_t hi, int64_t& out);
  void Flag(std::string_view key, bool& out);  // on|off, or the bare key
  // The index of the value among `words`.
  void Word(std::string_view key, const std::vector<std::string_view>& words, int& out);

  Status Finish() const;

 private:
  const std::string* Take(std::string_view key);
  void Fail(std::string message);

  std::string policy_;
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<std::string> known_;
  std::vector<std::string> taken_;
  std::string error_;
};

}  // namespace hase::placement
