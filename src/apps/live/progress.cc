#include "apps/live/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace hase::live {
namespace {

// Columns of UTF-8 text that uses single-width characters only.
size_t Columns(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string Cut(const std::string& text, size_t columns) {
  if (Columns(text) <= columns) return text;
  std::string out;
  size_t used = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80 && ++used > columns) break;
    out += c;
  }
  return out;
}

}  // namespace

std::string Bar(double part, size_t cells) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double clamped = std::isfinite(part) ? std::clamp(part, 0.0, 1.0) : 0;
  const auto eighths = static_cast<size_t>(std::lround(clamped * static_cast<double>(cells) * 8));
  std::string bar;
  for (size_t i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kEighths[eighths % 8];
  for (size_t i = (eighths + 7) / 8; i < cells; ++i) bar += "·";
  return bar;
}

Progress::Progress(std::string title, const cluster::Cluster& cluster,
                   std::span<const workload::Job> jobs, size_t width)
    : title_(std::move(title)), width_(width), terminal_(isatty(STDERR_FILENO) != 0) {
  for (const cluster::Device& device : cluster.devices) {
    const auto& type = cluster.types[device.type.index()];
    row_of_device_[device.name] = rows_.size();
    Row row;
    row.device = device.name;
    if (type.spec.kind == cluster::DeviceKind::kCpu)
      row.quota = fmt::format("{:3.0f} %", ToFraction(type.quota) * 100);
    rows_.push_back(std::move(row));
  }
  for (const workload::Job& job : jobs) jobs_[job.job_id] = &job;
}

void Progress::OnEntry(const execution::LogEntry& entry) {
  const auto at = row_of_device_.find(entry.device);
  Row* row = at == row_of_device_.end() ? nullptr : &rows_[at->second];
  if (entry.kind == "arrived") {
    ++arrived_;
  } else if (entry.kind == "started" && row) {
    row->job = entry.job;
    row->done_before = row->done = done_[entry.job];
    const auto job = jobs_.find(entry.job);
    row->inputs = job == jobs_.end() ? 0 : job->second->inputs;
  } else if (entry.kind == "chunk" && row) {
    done_[entry.job] = row->done = entry.inputs;
  } else if (entry.kind == "finished" || entry.kind == "failed") {
    if (row) row->job.clear();
    if (row && entry.kind == "finished") ++row->finished;
    const bool whole = entry.kind == "finished" ? entry.why != "part" : !row;
    ended_ += whole;
    failed_ += whole && entry.kind == "failed";
  } else if (entry.kind == "rejected" || entry.kind == "cancelled") {
    ++ended_;
    ++failed_;
  }
  Draw(false);
}

std::vector<std::string> Progress::Lines(double seconds) const {
  std::vector<std::string> lines;
  const auto total = static_cast<double>(jobs_.size());
  std::string head =
      fmt::format("  {:<12} {} {:>3} of {} jobs {:>7.1f} s", title_,
                  Bar(ended_ / std::max(1.0, total), 24), ended_, jobs_.size(), seconds);
  if (arrived_ < static_cast<int>(jobs_.size()))
    head += fmt::format("  {} to come", static_cast<int>(jobs_.size()) - arrived_);
  if (failed_ > 0) head += fmt::format("  {} failed", failed_);
  lines.push_back(Cut(head, width_));
  for (const Row& row : rows_) {
    std::string line = fmt::format("    {:<10} {:>6}  ", row.device, row.quota);
    const auto job = jobs_.find(row.job);
    if (job == jobs_.end()) {
      line += fmt::format("{:<12} {:<24}", "idle", "");
    } else {
      const double part =
          row.inputs > 0 ? static_cast<double>(row.done) / static_cast<double>(row.inputs) : 0;
      line += fmt::format("{} {:3.0f} %  {} {} ×{}", Bar(part, 12), part * 100, row.job,
                          job->second->model.substr(job->second->model.rfind('/') + 1),
                          job->second->batch);
    }
    lines.push_back(Cut(line, width_));
  }
  return lines;
}

void Progress::Draw(bool last) {
  if (!terminal_) return;
  const Nanos now = clock_.Now();
  if (!last && drawn_ && now - last_ < FromMillis(125)) return;
  last_ = now;
  std::string text;
  if (drawn_) text += fmt::format("\x1b[{}A", rows_.size() + 1);
  for (const std::string& line : Lines(ToSeconds(now))) text += line + "\x1b[K\n";
  std::fputs(text.c_str(), stderr);
  drawn_ = true;
}

void Progress::Finish() { Draw(true); }

}  // namespace hase::live
