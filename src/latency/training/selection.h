// Rows of a table by what they are, and fixed samples of them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "latency/training/table.h"

namespace hase::latency {

constexpr int kTestBucket = 0, kCalibrationBucket = 1;

// Which rows may be trained on (beside the test bucket, which never is).
using RowFilter = std::function<bool(const Table&, const TableRow&)>;

std::vector<uint32_t> Select(const Table& table, const std::function<bool(const TableRow&)>& want);
// At most `count` of them (0 = all), drawn with a fixed seed, in their old order.
void Thin(std::vector<uint32_t>& index, size_t count, std::string_view purpose);
// Their log(time / roofline).
std::vector<float> Labels(const Table& table, std::span<const uint32_t> index);
std::string Cell(const TableRow& row);  // "op_class|precision"

}  // namespace hase::latency
