// hase explain JOB: why it waits or waited, in numbers, from the decision records that `hase
// simulate --decisions` and `hase run` keep.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/decision_file.h"
#include "base/file.h"

namespace hase::cli {
namespace {

struct Flags {
  std::string job, decisions;
  bool json = false, all = false;
};

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
  fmt::print("{:>10.2f} s  {}\n", d.t_s, Headline(d));
  if (!d.why.empty()) fmt::print("              because {}\n", d.why);
  for (size_t i = 0; i < d.candidates.size(); ++i) {
    const auto& c = d.candidates[i];
    fmt::print("              {:<10} {:<20} {:>4.0f} %  start {:>9.2f} s  end {:>9.2f} s",
               i == 0   ? "best"
               : i == 1 ? "runner-up"
                        : "",
               c.device, c.share * 100, c.start_s, c.finish_s);
    if (i > 0) fmt::print("  ({:+.2f} s)", c.finish_s - d.candidates[0].finish_s);
    if (c.inflicted_s > 0) fmt::print("  delays residents by {:.2f} s", c.inflicted_s);
    if (!c.bound_by.empty()) fmt::print("  bound by {}", c.bound_by);
    fmt::print("\n");
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

Result<int> Explain(const Flags& flags) {
  if (flags.decisions.empty()) {
    return Usage("--decisions FILE is needed (`hase simulate --decisions FILE` writes it)");
  }
  HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.decisions));
  HASE_ASSIGN_OR_RETURN(const auto all, apps::ParseDecisions(flags.decisions, text));
  std::vector<apps::StoredDecision> mine;
  for (const auto& d : all) {
    if (d.job == flags.job) mine.push_back(d);
  }
  if (mine.empty()) {
    return Invalid(fmt::format("{}: no decision about a job '{}'", flags.decisions, flags.job));
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

}  // namespace

Action SetUpExplain(CLI::App& command) {
  auto flags = std::make_shared<Flags>();  // shared: the action outlives this function
  command.add_option("job", flags->job, "the job's id")->required();
  command.add_option("--decisions", flags->decisions, "decision records (JSON Lines)");
  command.add_flag("--all", flags->all, "every decision, not only the turning points");
  command.add_flag("--json", flags->json, "Print JSON");
  return [flags]() -> Result<int> { return Explain(*flags); };
}

}  // namespace hase::cli
