// Tables: measured rows as the trees see them, one table per (family, timing convention).
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cluster/catalogue.h"
#include "latency/data/rows.h"
#include "latency/ensemble.h"

namespace hase::latency {

struct TableRow {
  float log_ratio = 0;    // log(measured / roofline): what the trees learn
  float roofline_us = 0;  // of the kernel on its device
  float compute_us = 0;   // no prediction may be below it
  float latency_us = 0;   // measured
  uint16_t device = 0;    // index into Tables::devices
  uint8_t bucket = 0;     // geometry bucket
  uint8_t block = 0;      // the same of (in channels, out channels), convolutions
  model::OpClass op_class = model::OpClass::kOther;
  model::Precision precision = model::Precision::kFp32;
  uint32_t digest = 0;
  uint32_t kernel = 0;      // hash of the launch alone: equal on all cards
  float session_place = 0;  // KernelTarget::session_place
};

struct KeptKernel {
  uint32_t row = 0;
  model::Kernel kernel;
};

struct Table {
  Family family = Family::kConv;
  Convention convention = Convention::kPyTorchEvents;
  std::string data_set;
  size_t width = 0;
  std::vector<float> x;  // row-major, width floats a row
  std::vector<TableRow> rows;
  std::vector<KeptKernel> kept;  // of the rows asked for, ascending
  std::span<const float> Row(size_t i) const { return {x.data() + i * width, width}; }
  // The rows of `index`, one after the other.
  std::vector<float> Gather(std::span<const uint32_t> index) const;
  // The kernel of a row, if it was kept.
  const model::Kernel* Kernel(uint32_t row) const;
};

struct Tables {
  std::vector<Table> tables;
  std::vector<cluster::DeviceSpec> devices;
  ReadReport report;
};

// Rows of cards that the catalogue does not know are dropped and counted. `only`: data sets wanted,
// empty = all. `keep`: the rows whose kernels are kept (rows of cards left out are also predicted
// as another card would see them). `sessions` false: as if no row's place in its session were
// known.
using KeepKernel = std::function<bool(const TableRow&, Convention, const cluster::DeviceSpec&)>;
Result<Tables> LoadTables(std::span<const std::filesystem::path> paths,
                          std::span<const std::string> only, const KeepKernel& keep = {},
                          bool sessions = true);

}  // namespace hase::latency
