// Dense integer ids: an id is an index into the table that issued it (the registry of models, the
// list of devices …), so lookups are array reads even at ten thousand devices. Names live in those
// tables and appear again only where something is printed.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace hase {

template <typename Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(uint32_t index) : index_(index) {}
  constexpr uint32_t index() const { return index_; }
  constexpr auto operator<=>(const Id&) const = default;

 private:
  uint32_t index_ = 0;
};

using ModelId = Id<struct ModelIdTag>;            // a (model, runtime wish, precision) to be run
using DeviceTypeId = Id<struct DeviceTypeIdTag>;  // devices of one type predict alike
using DeviceId = Id<struct DeviceIdTag>;
using NodeId = Id<struct NodeIdTag>;
using JobId = Id<struct JobIdTag>;
using ServiceId = Id<struct ServiceIdTag>;
using OwnerId = Id<struct OwnerIdTag>;

}  // namespace hase

template <typename Tag>
struct std::hash<hase::Id<Tag>> {
  size_t operator()(hase::Id<Tag> id) const noexcept { return id.index(); }
};
