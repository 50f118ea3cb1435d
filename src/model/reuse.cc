#include "model/reuse.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "model/resolve.h"

namespace hase::model {
namespace {

constexpr int64_t kLeastBlock = int64_t{1} << 15;
constexpr int64_t kMostTouches = int64_t{1} << 16;  // of blocks, in one run: coarser beyond
constexpr int64_t kConstants = int64_t{1} << 61;    // where weights begin, far from all buffers
constexpr int64_t kCallers = kConstants + (int64_t{1} << 60);

enum class Role : uint8_t { kActivation, kWeight, kOutput };

struct Operand {
  Role role = Role::kActivation;
  int64_t address = 0, bytes = 0;
};

// Blocks by when they were last touched, and how many lie above one in the stack.
class Stack {
 public:
  explicit Stack(size_t touches) : above_(touches + 1) {}

  // Blocks touched since this one was; nullopt the first time.
  std::optional<int64_t> Touch(int64_t block) {
    const auto [entry, fresh] = last_.try_emplace(block, now_);
    std::optional<int64_t> distance;
    if (!fresh) {
      distance = static_cast<int64_t>(last_.size()) - Sum(entry->second);
      Add(entry->second, -1);
      entry->second = now_;
    }
    Add(now_++, 1);
    return distance;
  }

 private:
  // A Fenwick tree over touches: 1 where a block's last touch is.
  void Add(size_t at, int value) {
    for (++at; at < above_.size(); at += at & (~at + 1)) above_[at] += value;
  }
  int64_t Sum(size_t at) const {
    int64_t sum = 0;
    for (++at; at > 0; at -= at & (~at + 1)) sum += above_[at];
    return sum;
  }

  std::vector<int> above_;
  std::unordered_map<int64_t, size_t> last_;
  size_t now_ = 0;
};

class Addresses {
 public:
  Addresses(const Graph& graph, const BufferPlan& plan, Precision precision, int64_t batch)
      : graph_(graph), plan_(plan), precision_(precision), batch_(batch), placed_(plan.Place()) {}

  // Nothing for tensors without bytes. A tensor that several nodes share lies in one place.
  std::optional<Operand> Of(int tensor, bool written) {
    if (tensor == kAbsent) return std::nullopt;
    const Tensor& t = graph_.tensors[static_cast<size_t>(tensor)];
    const int64_t bytes = TensorBytes(t, precision_, batch_).value_or(0);
    if (bytes <= 0) return std::nullopt;
    const Role role = written ? Role::kOutput : t.constant ? Role::kWeight : Role::kActivation;
    const int buffer = plan_.buffer_of(tensor);
    if (buffer != kAbsent && placed_.address[static_cast<size_t>(buffer)] >= 0) {
      return Operand{role, placed_.address[static_cast<size_t>(buffer)], bytes};
    }
    int64_t& end = buffer == kAbsent ? constants_ : callers_;
    const auto [entry, fresh] = outside_.try_emplace(tensor, end);
    if (fresh) end += std::min(bytes, int64_t{1} << 50) / 64 * 64 + 64;
    return Operand{role, entry->second, bytes};
  }

 private:
  const Graph& graph_;
  const BufferPlan& plan_;
  const Precision precision_;
  const int64_t batch_;
  const BufferPlan::Placed placed_;
  std::unordered_map<int, int64_t> outside_;  // addresses of what the arena does not hold
  int64_t constants_ = kConstants, callers_ = kCallers;
};

// Byte-weighted mean of log distances.
struct Mean {
  double weight = 0, sum = 0;
  void Add(std::optional<int64_t> distance, double bytes) {
    const auto d = std::clamp(distance.value_or(kMostReuse), kLeastReuse, kMostReuse);
    weight += bytes;
    sum += bytes * std::log2(static_cast<double>(d));
  }
  int64_t bytes() const { return weight > 0 ? std::llround(std::exp2(sum / weight)) : 0; }
};

// One kernel's touches: weights first, since it comes back to them all along, then its activations
// and its output side by side.
Reuse Walk(const std::vector<Operand>& operands, int64_t block, Stack& stack) {
  Mean means[3];
  const auto touch = [&](const Operand& o, int64_t at) {
    auto distance = stack.Touch(at);
    if (distance) *distance *= block;
    means[static_cast<size_t>(o.role)].Add(distance, static_cast<double>(std::min(block, o.bytes)));
  };
  const auto first = [&](const Operand& o) { return o.address / block; };
  const auto count = [&](const Operand& o) {
    return (o.address + o.bytes - 1) / block - first(o) + 1;
  };
  int64_t steps = 0;
  for (const Operand& o : operands) {
    if (o.role != Role::kWeight) {
      steps = std::max(steps, count(o));
      continue;
    }
    for (int64_t i = 0; i < count(o); ++i) touch(o, first(o) + i);
  }
  for (int64_t step = 0; step < steps; ++step) {
    for (const Operand& o : operands) {
      if (o.role == Role::kWeight) continue;
      const int64_t n = count(o);
      for (int64_t i = step * n / steps; i < (step + 1) * n / steps; ++i) touch(o, first(o) + i);
    }
  }
  return {means[0].bytes(), means[1].bytes(), means[2].bytes()};
}

}  // namespace

std::vector<Reuse> ReuseOf(const Graph& graph, const BufferPlan& plan, Precision precision,
                           int64_t batch) {
  Addresses addresses(graph, plan, precision, batch);
  std::vector<std::vector<Operand>> nodes(graph.nodes.size());
  double total = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.silent) continue;
    const auto add = [&](int tensor, bool written) {
      if (const auto operand = addresses.Of(tensor, written)) {
        nodes[i].push_back(*operand);
        total += static_cast<double>(operand->bytes);
      }
    };
    for (const int input : node.inputs) add(input, false);
    for (const int output : node.outputs) add(output, true);
  }
  int64_t block = kLeastBlock;
  constexpr int64_t kMostBlock = int64_t{1} << 50;
  while (total / static_cast<double>(block) > kMostTouches && block < kMostBlock) block *= 2;
  size_t touches = 0;
  for (const auto& operands : nodes) {
    for (const Operand& o : operands) touches += static_cast<size_t>(o.bytes / block) + 2;
  }
  Stack stack(2 * touches);
  std::vector<Reuse> reuse(nodes.size());
  for (int run = 0; run < 2; ++run) {
    for (size_t i = 0; i < nodes.size(); ++i) reuse[i] = Walk(nodes[i], block, stack);
  }
  return reuse;
}

}  // namespace hase::model
