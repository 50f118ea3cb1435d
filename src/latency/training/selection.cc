#include "latency/training/selection.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/rng.h"

namespace hase::latency {

std::vector<uint32_t> Select(const Table& table, const std::function<bool(const TableRow&)>& want) {
  std::vector<uint32_t> index;
  for (uint32_t i = 0; i < table.rows.size(); ++i) {
    if (want(table.rows[i])) index.push_back(i);
  }
  return index;
}

void Thin(std::vector<uint32_t>& index, size_t count, std::string_view purpose) {
  if (count == 0 || index.size() <= count) return;
  Rng rng = Rng(1).Split(purpose);
  for (size_t i = 0; i < count; ++i) {
    const auto j = static_cast<size_t>(
        rng.UniformInt(static_cast<int64_t>(i), static_cast<int64_t>(index.size()) - 1));
    std::swap(index[i], index[j]);
  }
  index.resize(count);
  std::ranges::sort(index);
}

std::vector<float> Labels(const Table& table, std::span<const uint32_t> index) {
  std::vector<float> out;
  for (const uint32_t i : index) out.push_back(table.rows[i].log_ratio);
  return out;
}

std::string Cell(const TableRow& row) {
  return fmt::format("{}|{}", ToString(row.op_class), ToString(row.precision));
}

}  // namespace hase::latency
