// ModelTable: gives the dense ModelIds of a run. What is to be run is a model (zoo name, .onnx or
// .kernels.json file) with a runtime wish and a precision; whoever reads a workload interns each
// triple once, and everybody after that passes ids.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "model/kernel.h"

namespace hase::model {

struct ModelRef {
  std::string name;
  std::optional<Runtime> runtime;  // empty = the device's own
  Precision precision = Precision::kFp32;
  auto operator<=>(const ModelRef&) const = default;
};

class ModelTable {
 public:
  ModelId Intern(const ModelRef& ref) {
    const auto [at, added] = ids_.emplace(ref, ModelId(static_cast<uint32_t>(refs_.size())));
    if (added) refs_.push_back(ref);
    return at->second;
  }
  std::optional<ModelId> Find(const ModelRef& ref) const {
    const auto at = ids_.find(ref);
    return at == ids_.end() ? std::nullopt : std::optional(at->second);
  }
  const ModelRef& operator[](ModelId id) const { return refs_[id.index()]; }
  size_t size() const { return refs_.size(); }
  const std::vector<ModelRef>& refs() const { return refs_; }

 private:
  std::vector<ModelRef> refs_;
  std::map<ModelRef, ModelId> ids_;
};

}  // namespace hase::model
