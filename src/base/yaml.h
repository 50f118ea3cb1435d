// Strict YAML: a view of a document whose every complaint names file, line and column, and whose
// unknown keys are errors unless they start with x_. yaml-cpp stays behind this header.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hase {

class Yaml {
 public:
  static Result<Yaml> Parse(std::string name, const std::string& text);
  static Result<Yaml> Load(const std::string& path);

  bool IsMap() const;
  bool IsList() const;
  bool IsNull() const;
  bool IsScalar() const;
  std::string Where() const;  // "cluster.yaml:3:7"

  // A map's keys must all be in `known` (or start with x_).
  Status CheckKeys(const std::vector<std::string_view>& known) const;
  std::optional<Yaml> Find(std::string_view key) const;  // nullopt if absent (or null)
  Result<Yaml> Get(std::string_view key) const;          // an error if absent
  std::vector<std::string> Keys() const;                 // in file order
  Result<std::vector<Yaml>> Items() const;               // a list's items; else an error

  Result<std::string> Text() const;
  Result<double> Number() const;  // finite
  Result<int64_t> Integer() const;
  Result<bool> Boolean() const;

  // Get(key), converted; the Or forms give the default if absent.
  Result<std::string> Text(std::string_view key) const;
  Result<double> Number(std::string_view key) const;
  Result<int64_t> Integer(std::string_view key) const;
  Result<std::string> TextOr(std::string_view key, std::string fallback) const;
  Result<double> NumberOr(std::string_view key, double fallback) const;
  Result<int64_t> IntegerOr(std::string_view key, int64_t fallback) const;
  Result<bool> BooleanOr(std::string_view key, bool fallback) const;

 private:
  struct Node;
  explicit Yaml(
      std::shared_ptr<const Node> node);  // shared: views outlive the parent they came from
  std::shared_ptr<const Node> node_;
};

}  // namespace hase
