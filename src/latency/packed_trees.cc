#include "base/check.h"
#include "base/file.h"
#include "latency/trees.h"

namespace hase::latency {

struct PackedTrees::State {
  std::string name, packed;
  std::once_flag once;
  Trees trees;
};

PackedTrees::PackedTrees() : PackedTrees(Trees()) {}
PackedTrees::PackedTrees(Trees trees) : state_(std::make_shared<State>()) {
  state_->trees = std::move(trees);
}
PackedTrees::PackedTrees(std::string name, std::string packed) : state_(std::make_shared<State>()) {
  state_->name = std::move(name);
  state_->packed = std::move(packed);
}

bool PackedTrees::empty() const { return state_->packed.empty() && get().tree_count() == 0; }

const Trees& PackedTrees::get() const {
  State& state = *state_;
  if (state.packed.empty()) return state.trees;
  std::call_once(state.once, [&] {
    const auto bytes = Decompress(state.packed);
    HASE_CHECK(bytes.has_value(), "{}: {}", state.name, bytes.error().message);
    auto trees = Trees::Parse(*bytes);
    HASE_CHECK(trees.has_value(), "{}: {}", state.name, trees.error().message);
    state.trees = std::move(*trees);
  });
  return state.trees;
}

}  // namespace hase::latency
