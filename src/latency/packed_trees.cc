#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "base/file.h"
#include "latency/trees.h"

namespace hase::latency {

struct PackedTrees::State {
  std::string name, packed;
  size_t features = 0;
  std::once_flag once;
  Trees trees;
};

PackedTrees::PackedTrees() : PackedTrees(Trees()) {}
PackedTrees::PackedTrees(Trees trees) : state_(std::make_shared<State>()) {
  state_->trees = std::move(trees);
}
PackedTrees::PackedTrees(std::string name, std::string packed, size_t features)
    : state_(std::make_shared<State>()) {
  state_->features = features;
  state_->name = std::move(name);
  state_->packed = std::move(packed);
}

bool PackedTrees::empty() const { return state_->packed.empty() && get().tree_count() == 0; }

const Trees& PackedTrees::get() const {
  State& state = *state_;
  if (state.packed.empty()) return state.trees;
  std::call_once(state.once, [&] {
    const auto bytes = Decompress(state.packed);
    auto trees = bytes ? Trees::Parse(*bytes) : Result<Trees>(std::unexpected(bytes.error()));
    if (!trees || trees->feature_count() != state.features) {
      fmt::print(stderr, "{}: {}; take the shipped file or run `hase train`\n", state.name,
                 trees ? "trees over other features" : trees.error().message);
      std::exit(1);
    }
    state.trees = std::move(*trees);
  });
  return state.trees;
}

}  // namespace hase::latency
