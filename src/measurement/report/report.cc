// The report's numbers as JSON inside the page of page.html.
#include "measurement/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "measurement/metrics.h"
#include "measurement/report/assets.h"

namespace hase::measurement {
namespace {

using nlohmann::json;

json Maybe(const std::optional<double>& value) { return value ? json(*value) : json(nullptr); }

json ToJson(const ReportBar& b) {
  return {{"job", b.job},
          {"model", b.model},
          {"device", b.device},
          {"why", b.why},
          {"batch", b.batch},
          {"inputs", b.inputs},
          {"start_s", b.start_s},
          {"end_s", b.end_s},
          {"ok", b.ok},
          {"backfilled", b.backfilled},
          {"promised_s", Maybe(b.promised_s)},
          {"loaded_s", Maybe(b.loaded_s)},
          {"predicted_end_s", Maybe(b.predicted_end_s)}};
}

json ToJson(const ReportSeeds& s) {
  const auto value = [](const ReportSeeds::Value& v) {
    return json{{"mean", v.mean}, {"ci95", v.ci95}};
  };
  return {{"policy", s.policy},
          {"seeds", s.seeds},
          {"closed_gap", s.closed_gap ? value(*s.closed_gap) : json(nullptr)},
          {"makespan_s", value(s.makespan_s)},
          {"completion_s", value(s.completion_s)}};
}

json ToJson(const ReportPolicy& p) {
  json bars = json::array(), moments = json::array();
  for (const auto& m : p.moments) moments.push_back({m.t_s, m.queued, m.used});
  for (const ReportBar& bar : p.bars) bars.push_back(ToJson(bar));
  return {{"name", p.name},
          {"makespan_s", p.makespan_s},
          {"mean_completion_s", p.mean_completion_s},
          {"p99_wait_s", p.p99_wait_s},
          {"utilisation", p.utilisation},
          {"closed_gap", Maybe(p.closed_gap)},
          {"decision_p50_us", Maybe(p.decision_p50_us)},
          {"jobs", p.jobs},
          {"finished", p.finished},
          {"promises",
           {{"made", p.promises_made},
            {"kept", p.promises_kept},
            {"probability", p.promised_probability}}},
          {"completions_s", p.completions_s},
          {"moments", std::move(moments)},
          {"bars", std::move(bars)}};
}

json ToJson(const ReportPoint& p) {
  return {{"job", p.job},
          {"model", p.model},
          {"device", p.device},
          {"policy", p.policy},
          {"batch", p.batch},
          {"part", p.load ? "load" : "work"},
          {"profiled", p.profiled},
          {"predicted_s", p.predicted_s},
          {"measured_s", p.measured_s}};
}

json ToJson(const ReportDecision& d) {
  json candidates = json::array();
  for (const auto& c : d.candidates) {
    candidates.push_back({{"device", c.device},
                          {"bound_by", c.bound_by},
                          {"share", c.share},
                          {"start_s", c.start_s},
                          {"finish_s", c.finish_s},
                          {"inflicted_s", c.inflicted_s}});
  }
  return {{"policy", d.policy},
          {"kind", d.kind},
          {"job", d.job},
          {"device", d.device},
          {"why", d.why},
          {"t_s", d.t_s},
          {"predicted_end_s", d.predicted_end_s},
          {"candidates", std::move(candidates)}};
}

template <typename T>
json List(const std::vector<T>& items, size_t limit) {
  json list = json::array();
  for (size_t i = 0; i < std::min(items.size(), limit); ++i) list.push_back(ToJson(items[i]));
  return list;
}

json ToJson(const Report& report) {
  json cards = json::array(), devices = json::array(), notes = report.notes;
  for (const auto& card : report.cards)
    cards.push_back({{"value", card.value}, {"label", card.label}});
  for (const auto& device : report.devices)
    devices.push_back({{"name", device.name}, {"description", device.description}});
  if (report.decisions.size() > kMaxReportDecisions)
    notes.push_back(fmt::format("Of {} decisions the first {} are shown.", report.decisions.size(),
                                kMaxReportDecisions));
  return {{"title", report.title},
          {"subtitle", report.subtitle},
          {"cards", std::move(cards)},
          {"devices", std::move(devices)},
          {"lower_bound_s", Maybe(report.lower_bound_s)},
          {"policies", List(report.policies, report.policies.size())},
          {"prediction_note", report.prediction_note},
          {"points", List(report.points, kMaxReportBars)},
          {"decisions", List(report.decisions, kMaxReportDecisions)},
          {"notes", std::move(notes)},
          {"seeds", List(report.seeds, report.seeds.size())},
          {"curves", report.curves}};
}

// Who waits and what is booked, over time.
std::vector<ReportPolicy::Moment> MomentsOf(const execution::Outcome& outcome, size_t devices) {
  constexpr int kMoments = 300;
  struct Step {
    Nanos at;
    double queued = 0, used = 0;
  };
  std::vector<Step> steps;
  for (const auto& job : outcome.jobs) {
    steps.push_back({job.arrival, 1, 0});
    const auto until = job.first_start ? job.first_start : job.end;
    if (until) steps.push_back({*until, -1, 0});
  }
  for (const auto& run : outcome.runs) {
    double share = 0;
    for (const auto& slot : run.slots) share += ToFraction(slot.share);
    share /= static_cast<double>(std::max<size_t>(1, devices));
    steps.push_back({run.started, 0, share});
    steps.push_back({run.ended, 0, -share});
  }
  std::vector<ReportPolicy::Moment> moments;
  if (steps.empty()) return moments;
  std::ranges::stable_sort(steps, {}, &Step::at);
  const Nanos first = steps.front().at, length = steps.back().at - first;
  size_t next = 0;
  double queued = 0, used = 0;
  for (int m = 0; m <= kMoments; ++m) {
    const Nanos t = first + Scale(length, static_cast<double>(m) / kMoments);
    for (; next < steps.size() && steps[next].at <= t; ++next) {
      queued += steps[next].queued;
      used += steps[next].used;
    }
    moments.push_back({ToSeconds(t), queued, std::max(0.0, used)});
  }
  return moments;
}

std::string SlotNames(std::span<const placement::Slot> slots, const cluster::Cluster& cluster) {
  std::string names;
  for (const auto& slot : slots)
    names += (names.empty() ? "" : " + ") + cluster.devices[slot.device.index()].name;
  return names;
}

}  // namespace

std::string RenderReport(const Report& report) {
  return FillPage(ReportPage(),
                  ToJson(report).dump(-1, ' ', false, json::error_handler_t::replace));
}

Status WriteReport(const std::filesystem::path& path, const Report& report) {
  return WriteFileAtomically(path, RenderReport(report));
}

ReportPolicy PolicyOf(const std::string& name, const execution::Outcome& outcome,
                      std::span<const workload::Job> jobs, const cluster::Cluster& cluster) {
  const Metrics metrics = ComputeMetrics(outcome, cluster.devices.size());
  ReportPolicy policy{.name = name,
                      .makespan_s = metrics.makespan_s,
                      .mean_completion_s = metrics.mean_completion_s,
                      .p99_wait_s = metrics.p99_wait_s,
                      .utilisation = metrics.utilisation,
                      .closed_gap = {},
                      .decision_p50_us = metrics.decision_p50_us,
                      .jobs = metrics.jobs,
                      .finished = metrics.finished,
                      .promises_made = metrics.promises_made,
                      .promises_kept = metrics.promises_kept,
                      .promised_probability = metrics.promised_probability,
                      .completions_s = {},
                      .moments = MomentsOf(outcome, cluster.devices.size()),
                      .bars = {}};
  for (const auto& job : outcome.jobs) {
    if (job.ending != execution::Ending::kFinished || !job.end) continue;
    policy.completions_s.push_back(ToSeconds(*job.end - job.arrival));
  }
  std::ranges::sort(policy.completions_s);
  for (const execution::RunOutcome& run : outcome.runs) {
    const workload::Job& job = jobs[run.job.index()];
    for (const auto& slot : run.slots) {
      if (policy.bars.size() >= kMaxReportBars) return policy;
      ReportBar bar{.job = job.job_id,
                    .model = job.model,
                    .device = cluster.devices[slot.device.index()].name,
                    .why = run.why,
                    .batch = run.batch,
                    .inputs = run.inputs_done,
                    .start_s = ToSeconds(run.started),
                    .end_s = ToSeconds(run.ended),
                    .loaded_s = {},
                    .predicted_end_s = {},
                    .ok = run.ok,
                    .backfilled = run.backfilled,
                    .promised_s = {}};
      const auto& promise = outcome.jobs[run.job.index()].promise;
      if (promise) bar.promised_s = ToSeconds(promise->from);
      if (run.loaded) bar.loaded_s = ToSeconds(*run.loaded);
      if (run.predicted_finish > kNoTime) bar.predicted_end_s = ToSeconds(run.predicted_finish);
      policy.bars.push_back(std::move(bar));
    }
  }
  return policy;
}

void ReportDecisions::OnDecision(Nanos now, const placement::Decision& decision) {
  if (decisions_.size() >= kMaxReportDecisions) return;
  ReportDecision entry;
  entry.policy = policy_;
  entry.t_s = ToSeconds(now);
  const auto record = [&](const placement::Record& r) {
    entry.why = r.why;
    entry.predicted_end_s = ToSeconds(r.predicted_finish);
    for (const auto& c : r.candidates) {
      entry.candidates.push_back({.device = cluster_.devices[c.device.index()].name,
                                  .bound_by = c.bound_by,
                                  .share = ToFraction(c.share),
                                  .start_s = ToSeconds(c.start),
                                  .finish_s = ToSeconds(c.finish),
                                  .inflicted_s = ToSeconds(c.inflicted)});
    }
  };
  std::visit(
      [&](const auto& d) {
        using T = std::decay_t<decltype(d)>;
        entry.job = jobs_[d.job.index()].job_id;
        if constexpr (std::is_same_v<T, placement::Start>) {
          entry.kind = "start";
          entry.device = SlotNames(d.slots, cluster_);
          record(d.record);
        } else if constexpr (std::is_same_v<T, placement::Reserve>) {
          entry.kind = "reserve";
          entry.device = SlotNames(d.slots, cluster_);
          record(d.record);
          entry.why += fmt::format(" (from {:.2f} s, with probability {:.2f})", ToSeconds(d.from),
                                   d.probability);
        } else if constexpr (std::is_same_v<T, placement::Wait>) {
          entry.kind = "wait";
          record(d.record);
        } else {
          entry.kind = "reject";
          entry.why = d.why;
          if (!d.nearest_feasible.empty()) entry.why += "; would fit: " + d.nearest_feasible;
        }
      },
      decision);
  decisions_.push_back(std::move(entry));
}

}  // namespace hase::measurement
