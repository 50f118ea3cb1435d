// hase explain JOB: why it waits or waited, in numbers. From the decision records that `hase
// simulate --decisions` keeps, from an event log (--events of simulate and run), or from a captured
// state (--snapshot), whose decision is made again.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/help.h"
#include "apps/decision_file.h"
#include "apps/job_story.h"
#include "apps/snapshot.h"
#include "base/file.h"

namespace hase::cli {
namespace {

struct Flags {
  std::string job, decisions, events, state;
  bool json = false, all = false;
};

constexpr size_t kIndent = 14;  // of what belongs to the line above

void Say(std::string_view text) { fmt::print("{}\n", Wrapped(text, kIndent)); }

void SayAt(double t_s, std::string_view text) {
  fmt::print("{:>10.2f} s  {}\n", t_s, std::string_view(Wrapped(text, kIndent)).substr(kIndent));
}

std::string Headline(const apps::StoredDecision& d) {
  if (d.kind == "start") {
    return fmt::format(
        "started on {} ({:.0f} % of it), batch {}, {} inputs, expected to end at "
        "{:.2f} s",
        d.device, d.share * 100, d.batch, d.inputs, d.predicted_finish_s);
  }
  if (d.kind == "reserve") {
    return fmt::format(
        "waits for {} ({:.0f} % of it): starts by {:.2f} s with probability {:.3f}, "
        "expected to end at {:.2f} s",
        d.device, d.share * 100, d.from_s, d.probability, d.predicted_finish_s);
  }
  if (d.kind == "reject") {
    return d.nearest_feasible.empty() ? "rejected"
                                      : fmt::format("rejected; nearest: {}", d.nearest_feasible);
  }
  return "waits without a reservation";
}

void PrintDecision(const apps::StoredDecision& d) {
  SayAt(d.t_s, Headline(d));
  if (!d.why.empty()) Say("because " + d.why);
  for (size_t i = 0; i < d.candidates.size(); ++i) {
    const auto& c = d.candidates[i];
    fmt::print("    {:<9} {:<16} {:>3.0f} % {:>9.2f} to {:>9.2f} s",
               i == 0   ? "best"
               : i == 1 ? "runner-up"
                        : "",
               c.device, c.share * 100, c.start_s, c.finish_s);
    if (i > 0) fmt::print(" ({:+.2f} s)", c.finish_s - d.candidates[0].finish_s);
    // That it starts when the device is free is said by the start.
    if (!c.bound_by.empty() && !c.bound_by.starts_with("busy until")) {
      fmt::print("  {}", c.bound_by);
    }
    fmt::print("\n");
    if (c.inflicted_s > 0) Say(fmt::format("delays residents by {:.2f} s", c.inflicted_s));
  }
}

nlohmann::ordered_json ToJson(const apps::StoredDecision& d) {
  nlohmann::ordered_json out = {
      {"t_s", d.t_s}, {"kind", d.kind}, {"device", d.device}, {"share", d.share}};
  out["why"] = d.why;
  out["from_s"] = d.from_s;
  out["probability"] = d.probability;
  out["predicted_finish_s"] = d.predicted_finish_s;
  out["candidates"] = nlohmann::ordered_json::array();
  for (const auto& c : d.candidates) {
    out["candidates"].push_back({{"device", c.device},
                                 {"share", c.share},
                                 {"start_s", c.start_s},
                                 {"finish_s", c.finish_s},
                                 {"inflicted_s", c.inflicted_s},
                                 {"bound_by", c.bound_by}});
  }
  return out;
}

Result<int> FromDecisions(const Flags& flags, const std::string& where,
                          const std::vector<apps::StoredDecision>& all) {
  std::vector<apps::StoredDecision> mine;
  for (const auto& d : all) {
    if (d.job == flags.job) mine.push_back(d);
  }
  if (mine.empty()) {
    return Invalid(fmt::format("{}: no decision about a job '{}'", where, flags.job));
  }
  // Without --all: the first, the one before the start, and the last of each kind tell the story.
  std::vector<apps::StoredDecision> shown;
  for (size_t i = 0; i < mine.size(); ++i) {
    const bool edge = i == 0 || i + 1 == mine.size() || mine[i].kind == "start" ||
                      mine[i + 1].kind != mine[i].kind;
    if (flags.all || edge) shown.push_back(mine[i]);
  }
  if (flags.json) {
    nlohmann::ordered_json out = {{"job", flags.job}, {"decisions", nlohmann::json::array()}};
    for (const auto& d : shown) out["decisions"].push_back(ToJson(d));
    fmt::print("{}\n", out.dump(1));
    return 0;
  }
  fmt::print("{}: {} decisions, {} shown\n", flags.job, mine.size(), shown.size());
  for (const auto& d : shown) PrintDecision(d);
  return 0;
}

// from an event log:

nlohmann::ordered_json ToJson(const apps::JobStory& s) {
  using Json = nlohmann::ordered_json;
  const auto time = [](double t) { return t < 0 ? Json(nullptr) : Json(t); };
  Json out = {{"job", s.job}, {"arrived_s", time(s.arrived_s)}, {"ending", s.ending}};
  out["why"] = s.why;
  out["ended_s"] = time(s.ended_s);
  out["passed_by"] = s.passed_by;
  out["promises"] = Json::array();
  for (const auto& p : s.promises) {
    Json line = {{"told_s", p.told_s}, {"from_s", p.from_s}, {"device", p.device}};
    line["moved"] = p.moved;
    line["why"] = p.why;
    line["blockers"] = Json::array();
    for (const auto& b : p.blockers) {
      line["blockers"].push_back({{"job", b.job},
                                  {"started_s", b.started_s},
                                  {"predicted_end_s", b.predicted_end_s},
                                  {"ended_s", time(b.ended_s)}});
    }
    out["promises"].push_back(std::move(line));
  }
  out["runs"] = Json::array();
  for (const auto& r : s.runs) {
    out["runs"].push_back({{"device", r.device},
                           {"share", r.share},
                           {"why", r.why},
                           {"started_s", r.started_s},
                           {"predicted_end_s", r.predicted_end_s},
                           {"ended_s", time(r.ended_s)},
                           {"ending", r.ending}});
  }
  return out;
}

void PrintPromise(const apps::JobStory& s, const apps::StoryPromise& p) {
  std::string promise = fmt::format("{} {}: starts by {:.2f} s",
                                    p.moved ? "promise moved to" : "waits for", p.device, p.from_s);
  if (!s.runs.empty()) {
    const double margin = p.from_s - s.runs[0].started_s;
    promise += fmt::format("; {}, {:.2f} s {}", margin >= -1e-3 ? "kept" : "broken",
                           std::abs(margin), margin >= -1e-3 ? "early" : "late");
  }
  SayAt(p.told_s, promise);
  if (!p.why.empty()) Say("because it " + p.why);
  for (const auto& b : p.blockers) {
    std::string blocked =
        fmt::format("blocked by {} there since {:.2f} s, expected to end at {:.2f} s", b.job,
                    b.started_s, b.predicted_end_s);
    if (b.ended_s >= 0) {
      blocked +=
          fmt::format(", ended at {:.2f} s ({:+.2f} s)", b.ended_s, b.ended_s - b.predicted_end_s);
    }
    Say(blocked);
  }
}

Result<int> FromEvents(const Flags& flags) {
  HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.events));
  HASE_ASSIGN_OR_RETURN(const auto events, execution::ParseEventLog(flags.events, text));
  const auto story = apps::StoryOf(flags.job, events);
  if (story.arrived_s < 0) {
    return Invalid(fmt::format("{}: no job '{}' arrives", flags.events, flags.job));
  }
  if (flags.json) {
    fmt::print("{}\n", ToJson(story).dump(1));
    return 0;
  }
  SayAt(story.arrived_s, story.job + " arrived");
  // Without --all: the first promise and the last one.
  const size_t n = story.promises.size();
  for (size_t i = 0; i < n; ++i) {
    if (flags.all || i == 0 || i + 1 == n) PrintPromise(story, story.promises[i]);
    if (!flags.all && i == 0 && n > 2) Say(fmt::format("… {} more promises (--all)", n - 2));
  }
  for (const auto& r : story.runs) {
    std::string run =
        fmt::format("started on {} ({:.0f} % of it) after {:.2f} s, expected to end at {:.2f} s",
                    r.device, r.share * 100, r.started_s - story.arrived_s, r.predicted_end_s);
    if (r.ended_s >= 0) {
      run += fmt::format(", {} at {:.2f} s ({:+.2f} s)", r.ending, r.ended_s,
                         r.ended_s - r.predicted_end_s);
    }
    SayAt(r.started_s, run);
    if (!r.why.empty()) Say("because it " + r.why);
  }
  if (story.passed_by > 0) {
    Say(fmt::format("{} later arrivals started while it waited", story.passed_by));
  }
  if (!story.ending.empty()) {
    SayAt(story.ended_s, story.ending + (story.why.empty() ? "" : ": ") + story.why);
  } else if (story.runs.empty()) {
    Say("still waiting where the log ends");
  }
  return 0;
}

// from a captured state:

// What runs on the devices that decisions about the job name.
void PrintResidents(const apps::Snapshot& s, const placement::Plan& plan, const std::string& job) {
  for (const auto& decision : plan.decisions) {
    const auto* reserve = std::get_if<placement::Reserve>(&decision);
    if (!reserve || s.sim->jobs[reserve->job.index()].job.job_id != job) continue;
    for (const auto& slot : reserve->slots) {
      for (const auto& r : s.devices[slot.device.index()].residents) {
        std::string blocked =
            fmt::format("blocked by {} on {}", s.sim->jobs[r.job.index()].job.job_id,
                        s.sim->cluster.devices[slot.device.index()].name);
        if (r.left) {
          blocked += fmt::format(", {:.2f} s of work left, in 9 of 10 cases less than {:.2f} s",
                                 r.left->mean_s, r.left->Quantile(0.9));
        }
        Say(blocked + (r.overrunning ? ", longer than expected already" : ""));
      }
    }
  }
}

Result<int> FromState(const Flags& flags) {
  HASE_ASSIGN_OR_RETURN(const auto snapshot, apps::ReadSnapshot(flags.state));
  const auto named = [&flags](const auto& input) { return input.job.job_id == flags.job; };
  if (!flags.job.empty() && std::ranges::none_of(snapshot->sim->jobs, named)) {
    return Invalid(fmt::format("{}: no job '{}'", flags.state, flags.job));
  }
  HASE_ASSIGN_OR_RETURN(const auto policy, placement::MakePolicy(snapshot->policy));
  const auto plan = policy->Decide(snapshot->View());
  const bool same = apps::PlanText(plan, *snapshot->sim) == snapshot->plan;
  apps::DecisionWriter writer(snapshot->sim->jobs, snapshot->sim->cluster);
  for (const auto& decision : plan.decisions) writer.OnDecision(snapshot->now, decision);
  HASE_ASSIGN_OR_RETURN(auto all, apps::ParseDecisions(flags.state, writer.text()));
  if (flags.json) {
    nlohmann::ordered_json out = {
        {"policy", snapshot->policy},        {"decision", snapshot->number},
        {"now_s", ToSeconds(snapshot->now)}, {"queued", snapshot->queue.size()},
        {"same_as_recorded", same},          {"decisions", nlohmann::json::array()}};
    for (const auto& d : all) {
      if (!flags.job.empty() && d.job != flags.job) continue;
      auto line = ToJson(d);
      line["job"] = d.job;
      out["decisions"].push_back(std::move(line));
    }
    fmt::print("{}\n", out.dump(1));
    return same ? 0 : 1;
  }
  fmt::print("{}, decision {} at {:.2f} s: {} jobs queued; made again, {}\n", snapshot->policy,
             snapshot->number, ToSeconds(snapshot->now), snapshot->queue.size(),
             same ? "the same" : "and it is NOT what was recorded");
  bool any = false;
  for (const auto& d : all) {
    if (!flags.job.empty() && d.job != flags.job) continue;
    any = true;
    if (flags.job.empty()) fmt::print("{}\n", d.job);
    PrintDecision(d);
    PrintResidents(*snapshot, plan, d.job);
  }
  if (!any && !flags.job.empty()) {
    Say(fmt::format("nothing is decided about {} here: it keeps what it was told before",
                    flags.job));
  }
  return same ? 0 : 1;
}

Result<int> Explain(const Flags& flags) {
  const int sources = !flags.decisions.empty() + !flags.events.empty() + !flags.state.empty();
  if (sources == 0) {
    return Usage(
        "one of --decisions, --events and --state is needed (`hase simulate` writes them)");
  }
  if (sources > 1) return Usage("only one of --decisions, --events and --state can be read");
  if (!flags.state.empty()) return FromState(flags);
  if (flags.job.empty()) return Usage("the job's id is needed");
  if (!flags.events.empty()) return FromEvents(flags);
  HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.decisions));
  HASE_ASSIGN_OR_RETURN(const auto all, apps::ParseDecisions(flags.decisions, text));
  return FromDecisions(flags, flags.decisions, all);
}

}  // namespace

Action SetUpExplain(CLI::App& command) {
  auto flags = std::make_shared<Flags>();  // shared: the action outlives this function
  command.add_option("job", flags->job, "the job's id (with --state: all decisions without it)");
  command.add_option("--decisions", flags->decisions, "decision records (JSON Lines)");
  command.add_option("--events", flags->events, "event log (JSON Lines) of simulate or run");
  command.add_option("--state", flags->state, "a snapshot: its decision is made again");
  command.add_flag("--all", flags->all, "every decision, not only the turning points");
  command.add_flag("--json", flags->json, "Print JSON");
  return [flags]() -> Result<int> { return Explain(*flags); };
}

}  // namespace hase::cli
