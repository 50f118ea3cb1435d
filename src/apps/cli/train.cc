// hase train: measured data sets -> predictor.bin and the digests of the rows it was trained on.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <memory>

#include "apps/cli/commands.h"
#include "base/file.h"
#include "latency/training/trainer.h"

namespace hase::cli {
namespace {

struct TrainFlags {
  std::vector<std::string> data = {"../shared/data"};
  std::vector<std::string> sets;
  std::string out = "predictor.bin";
  int64_t sample = 0;
  int threads = 2;
};

Result<int> RunTrain(const TrainFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const std::vector<std::filesystem::path> paths(flags.data.begin(), flags.data.end());
  HASE_ASSIGN_OR_RETURN(const auto tables,
                        latency::LoadTables(paths, flags.sets, latency::KeptForTraining));
  for (const auto& table : tables.tables) {
    fmt::print("{:<20} {:<7} {:>8} rows\n", table.data_set, ToString(table.family),
               table.rows.size());
  }
  for (const auto& [reason, rows] : tables.report.dropped) {
    fmt::print("dropped {:>8} rows: {}\n", rows, reason);
  }
  const auto progress = [&](const std::string& text) {
    if (terminal) fmt::print(stderr, "\r\033[K{}", text);
  };
  HASE_ASSIGN_OR_RETURN(
      auto file,
      latency::TrainModel(tables, {.threads = flags.threads, .sample = flags.sample}, progress));
  if (terminal) fmt::print(stderr, "\r\033[K");
  HASE_ASSIGN_OR_RETURN(const auto bytes, latency::WriteModelFile(file));
  HASE_RETURN_IF_ERROR(WriteFileAtomically(flags.out, bytes));
  const auto used = latency::UsedDigests(tables);
  HASE_ASSIGN_OR_RETURN(const auto digests, Compress(latency::PackDigests(used)));
  HASE_RETURN_IF_ERROR(WriteFileAtomically(flags.out + ".rows.xz", digests));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  fmt::print("{}: {:.1f} MB; {}.rows.xz: {} digests, {:.1f} MB; {:.0f} s\n", flags.out,
             static_cast<double>(bytes.size()) / 1e6, flags.out, used.size(),
             static_cast<double>(digests.size()) / 1e6, took.count());
  return 0;
}

}  // namespace

Action SetUpTrain(CLI::App& command) {
  auto flags = std::make_shared<TrainFlags>();
  command.add_option("--data", flags->data, "Folders that hold data sets, at any depth")
      ->capture_default_str();
  command.add_option("--set", flags->sets, "Only these data sets, by comma (default: all known)")
      ->delimiter(',');
  command.add_option("--out,-o", flags->out, "File to write; FILE.rows.xz goes beside it")
      ->capture_default_str();
  command
      .add_option("--sample", flags->sample,
                  "Train each ensemble on at most so many rows (0 = all); for quick checks")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  command.add_option("--threads", flags->threads, "Threads; the result does not depend on them")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  return [flags] { return RunTrain(*flags); };
}

}  // namespace hase::cli
