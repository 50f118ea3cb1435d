// Lowering: an ONNX file → the basic Graph.
//
// The file is parsed and checked by us first (clear complaints, external weights confined to the
// model's folder), then ONNX Runtime optimises it at its *basic* level, then all shapes are read
// off a probe: the optimised graph without its large weights, every tensor an output, at three
// batches, which also shows that each dimension is affine in the batch.
//
// Left out: opsets outside 11–21, models above 2 GiB, subgraphs (If, Loop) are one `other` kernel.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/graph.h"

namespace hase::model {

struct LowerOptions {
  // Symbolic dimensions to fix, by name. The batch's own name may be among them.
  std::vector<std::pair<std::string, int64_t>> dimensions;
  // An empty folder for ONNX Runtime's optimised graph; empty = one of Lower's own. Whoever made it
  // removes it.
  std::filesystem::path scratch;
};

// A folder of our own under the system's temporary folder, removed with all in it at the end.
class ScratchFolder {
 public:
  static Result<ScratchFolder> Create();
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit ScratchFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

Result<Graph> Lower(const std::filesystem::path& onnx, const LowerOptions& options);

// Lower in a child process with a memory limit and an alarm: ONNX Runtime may crash, loop or
// balloon on a hostile file, and then the file is named in an error instead.
Result<Graph> LowerInChild(const std::filesystem::path& onnx, const LowerOptions& options);

}  // namespace hase::model
