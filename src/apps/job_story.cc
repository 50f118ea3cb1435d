#include "apps/job_story.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace hase::apps {
namespace {

using execution::LoggedEvent;

// A gang's devices are joined by '+'.
bool OnOneOf(std::string_view devices, std::string_view device) {
  while (!devices.empty()) {
    const size_t end = std::min(devices.find('+'), devices.size());
    if (devices.substr(0, end) == device) return true;
    devices.remove_prefix(std::min(end + 1, devices.size()));
  }
  return false;
}

bool Meet(std::string_view a, std::string_view b) {
  while (!a.empty()) {
    const size_t end = std::min(a.find('+'), a.size());
    if (OnOneOf(b, a.substr(0, end))) return true;
    a.remove_prefix(std::min(end + 1, a.size()));
  }
  return false;
}

bool OverForGood(const LoggedEvent& e) {
  return e.kind == "cancelled" || (e.kind == "failed" && e.why.starts_with("for good: "));
}

// All runs of the log, to be looked up by device and time.
std::vector<StoryBlocker> RunsOf(const std::vector<LoggedEvent>& events) {
  std::vector<StoryBlocker> runs;
  std::map<std::pair<std::string, std::string>, size_t> open;
  for (const auto& e : events) {
    const std::pair key{e.job, e.device};
    if (e.kind == "started") {
      open[key] = runs.size();
      runs.push_back({e.job, e.device, ToSeconds(e.time), ToSeconds(e.predicted), -1});
    } else if (e.kind == "finished" || e.kind == "failed" || e.kind == "moved") {
      const auto at = open.find(key);
      if (at == open.end()) continue;
      runs[at->second].ended_s = ToSeconds(e.time);
      open.erase(at);
    }
    if (OverForGood(e)) {  // its other runs are stopped with it, and log no end of their own
      std::erase_if(open, [&](const auto& run) {
        if (run.first.first != e.job) return false;
        runs[run.second].ended_s = ToSeconds(e.time);
        return true;
      });
    }
  }
  return runs;
}

void EndRun(JobStory& story, const LoggedEvent& e, const std::string& ending) {
  for (auto& run : story.runs) {
    if (run.device != e.device || !run.ending.empty()) continue;
    run.ending = ending;
    run.ended_s = ToSeconds(e.time);
    return;
  }
}

void Take(JobStory& story, const LoggedEvent& e) {
  const double t = ToSeconds(e.time);
  if (OverForGood(e)) {
    for (auto& run : story.runs) {
      if (!run.ending.empty()) continue;
      run.ending = e.kind;
      run.ended_s = t;
    }
  }
  if (e.kind == "arrived") {
    story.arrived_s = t;
  } else if (e.kind == "started") {
    story.runs.push_back({e.device, e.why, ToFraction(e.share), t, ToSeconds(e.predicted), -1, ""});
  } else if (e.kind == "finished") {
    EndRun(story, e, e.why == "part" ? "part" : "finished");
    if (e.why == "part") return;
    story.ending = "finished";
    story.ended_s = t;
  } else if (e.kind == "failed" && e.why.starts_with("for good: ")) {
    story.ending = "failed";
    story.why = e.why.substr(10);
    story.ended_s = t;
  } else if (e.kind == "failed") {
    EndRun(story, e, "failed: " + e.why);
  } else if (e.kind == "rejected" || e.kind == "cancelled") {
    story.ending = e.kind;
    story.why = e.why;
    story.ended_s = t;
  } else if (e.kind == "moved" && e.predicted == Nanos(0)) {
    EndRun(story, e, "moved: " + e.why);  // its device was lost; a promise names a time
  } else if (e.kind == "reserved" || e.kind == "moved") {
    story.promises.push_back({t, ToSeconds(e.predicted), e.device, e.why, e.kind == "moved", {}});
  }
}

}  // namespace

JobStory StoryOf(const std::string& job, const std::vector<LoggedEvent>& events) {
  JobStory story;
  story.job = job;
  std::map<std::string, double> arrivals;
  std::set<std::string> passed;  // jobs, not their parts
  for (const auto& e : events) {
    if (e.job == job) Take(story, e);
    if (e.kind == "arrived") arrivals.emplace(e.job, ToSeconds(e.time));
    const bool waits = story.arrived_s >= 0 && story.runs.empty() && story.ending.empty();
    if (waits && e.kind == "started" && arrivals[e.job] > story.arrived_s) passed.insert(e.job);
  }
  story.passed_by = static_cast<int>(passed.size());
  const auto runs = RunsOf(events);
  for (auto& promise : story.promises) {
    for (const auto& run : runs) {
      const bool then =
          run.started_s <= promise.told_s && (run.ended_s < 0 || run.ended_s > promise.told_s);
      if (then && run.job != job && Meet(run.device, promise.device)) {
        promise.blockers.push_back(run);
      }
    }
    std::ranges::sort(promise.blockers, {}, &StoryBlocker::predicted_end_s);
  }
  return story;
}

}  // namespace hase::apps
