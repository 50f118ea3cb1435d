// Runs every tests/scenarios/*.yaml: a small cluster, a few jobs, faults, a policy, and what must
// come of it. Format in docs/formats.md, "Scenarios". With HASE_UPDATE_EXPECTED=1 event logs are
// rewritten and actual values printed for tools/update_expected.py; the diff is reviewed.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>

#include "base/file.h"
#include "base/yaml.h"
#include "cluster/catalogue.h"
#include "cluster/cluster_file.h"
#include "execution/backends/simulated/sim_case.h"
#include "execution/event_log.h"
#include "latency/table_estimator.h"
#include "measurement/metrics.h"
#include "workload/reader.h"
#include "world/table_world.h"

namespace hase {
namespace {

namespace fs = std::filesystem;
using execution::Ending;

const fs::path kFolder = fs::path(HASE_SOURCE_DIR) / "tests/scenarios";

bool Updating() { return std::getenv("HASE_UPDATE_EXPECTED") != nullptr; }

// A text of several lines stands for itself, one line for a file beside the scenario.
Result<std::string> TextOrFile(const Yaml& root, std::string_view key) {
  HASE_ASSIGN_OR_RETURN(const std::string text, root.Text(key));
  if (text.find('\n') != std::string::npos) return text;
  return ReadFile(kFolder / text);
}

struct Scenario {
  execution::SimCase sim;
  std::vector<std::string> policies;
  std::optional<Yaml> expect;
};

Status LoadTables(const Yaml& root, const std::string& name, execution::SimCase& sim) {
  HASE_ASSIGN_OR_RETURN(const std::string estimates, TextOrFile(root, "estimates"));
  HASE_ASSIGN_OR_RETURN(auto table, latency::TableEstimator::Parse(name + ".estimates", estimates,
                                                                   sim.models, sim.cluster.types));
  auto world = std::make_unique<world::TableWorld>(sim.cluster);
  if (root.Find("truth")) {
    HASE_ASSIGN_OR_RETURN(const std::string truth, TextOrFile(root, "truth"));
    HASE_ASSIGN_OR_RETURN(
        *world, world::TableWorld::Parse(name + ".truth", truth, sim.models, sim.cluster));
  } else {
    for (const auto& j : sim.jobs) {
      for (uint32_t t = 0; t < sim.cluster.types.size(); ++t) {
        const auto* e = table.Find(j.model, DeviceTypeId(t), j.job.batch);
        if (!e) continue;
        world->Set(j.model, DeviceTypeId(t), j.job.batch, {e->latency_s, e->load_s, e->memory()});
      }
    }
  }
  if (root.Find("slowdown")) {
    HASE_ASSIGN_OR_RETURN(const std::string text, TextOrFile(root, "slowdown"));
    HASE_ASSIGN_OR_RETURN(const auto pairs,
                          cluster::SlowdownTable::Parse(name + ".slowdown", text, sim.models));
    table.SetSlowdowns(pairs);
    world->SetSlowdowns(pairs);
  }
  sim.estimator = std::make_unique<latency::TableEstimator>(std::move(table));
  sim.world = std::move(world);
  return {};
}

Status LoadScenario(const fs::path& path, Scenario& s) {
  HASE_ASSIGN_OR_RETURN(const Yaml root, Yaml::Load(path.string()));
  HASE_RETURN_IF_ERROR(root.CheckKeys({"about", "cluster", "jobs", "policy", "seed", "estimates",
                                       "truth", "slowdown", "faults", "expect"}));
  const std::string name = path.stem().string();
  HASE_ASSIGN_OR_RETURN(const auto catalogue, cluster::Catalogue::Load());
  HASE_ASSIGN_OR_RETURN(const std::string text, TextOrFile(root, "cluster"));
  HASE_ASSIGN_OR_RETURN(s.sim.cluster, cluster::ParseCluster(name + ".cluster", text, catalogue,
                                                             cluster::DeviceSpec{}));
  HASE_ASSIGN_OR_RETURN(const std::string jobs, TextOrFile(root, "jobs"));
  HASE_ASSIGN_OR_RETURN(auto list, workload::ParseJobsCsv(name + ".jobs", jobs));
  s.sim.jobs = execution::MakeInputs(std::move(list), s.sim.models);
  HASE_RETURN_IF_ERROR(LoadTables(root, name, s.sim));
  if (const auto faults = root.Find("faults")) {
    HASE_ASSIGN_OR_RETURN(s.sim.faults, execution::ParseFaults(*faults, s.sim));
  }
  HASE_ASSIGN_OR_RETURN(const Yaml policy, root.Get("policy"));
  if (policy.IsList()) {
    HASE_ASSIGN_OR_RETURN(const auto items, policy.Items());
    for (const auto& item : items) {
      HASE_ASSIGN_OR_RETURN(s.policies.emplace_back(), item.Text());
    }
  } else {
    HASE_ASSIGN_OR_RETURN(s.policies.emplace_back(), policy.Text());
  }
  s.expect = root.Find("expect");
  return {};
}

struct Ran {
  Result<execution::Outcome> outcome = Invalid("not run");
  std::string events;
};

Ran RunOnce(const Scenario& s, const std::string& policy_name) {
  Ran ran;
  auto policy = placement::MakePolicy(policy_name);
  if (!policy) {
    ran.outcome = std::unexpected(policy.error());
    return ran;
  }
  execution::TextJournal journal;
  ran.outcome = execution::RunCase(s.sim, **policy, journal);
  ran.events = journal.text();
  return ran;
}

// What can be asked of a whole run, by key.
std::map<std::string, double> Values(const execution::Outcome& outcome, size_t devices) {
  const auto m = measurement::ComputeMetrics(outcome, devices);
  return {{"makespan_s", m.makespan_s},
          {"mean_completion_s", m.mean_completion_s},
          {"promises_made", m.promises_made},
          {"promises_broken", m.promises_made - m.promises_kept},
          {"promises_on_lost_devices", m.promises_on_lost_devices},
          {"finished", m.finished},
          {"failed", m.failed},
          {"rejects", m.rejected},
          {"cancelled", m.cancelled},
          {"oom", m.out_of_memory},
          {"overruns", m.overruns},
          {"backfilled", m.backfilled},
          {"deadline_miss", m.deadline_miss},
          {"starts", static_cast<double>(outcome.runs.size())},
          {"status", outcome.infeasible ? 3.0 : 0.0}};
}

std::string DevicesOf(const execution::Outcome& outcome, const cluster::Cluster& cluster,
                      uint32_t job) {
  std::string names;
  for (const auto& run : outcome.runs) {
    if (run.job.index() != job) continue;
    for (const auto& slot : run.slots) {
      names += (names.empty() ? "" : " ") + cluster.devices[slot.device.index()].name;
    }
  }
  return names;
}

void CheckNumber(const Yaml& where, const std::string& key, double actual) {
  const auto node = where.Get(key);
  const auto number = node->Number();
  ASSERT_TRUE(number) << number.error().message;
  EXPECT_NEAR(*number, actual, 1e-6 + std::abs(actual) * 1e-9) << node->Where() << ": " << key;
}

// expect.jobs: {NAME: {ending, start_s, start_by_s, end_s, end_by_s, device, why}}
void CheckJob(const Yaml& want, const Scenario& s, const execution::Outcome& outcome, uint32_t j) {
  ASSERT_TRUE(
      want.CheckKeys({"ending", "start_s", "start_by_s", "end_s", "end_by_s", "device", "why"}));
  const auto& job = outcome.jobs[j];
  const double start = job.first_start ? ToSeconds(*job.first_start) : -1;
  const double end = job.end ? ToSeconds(*job.end) : -1;
  if (want.Find("start_s")) CheckNumber(want, "start_s", start);
  if (want.Find("end_s")) CheckNumber(want, "end_s", end);
  EXPECT_LE(start, *want.NumberOr("start_by_s", 1e18) + 1e-6) << want.Where();
  EXPECT_LE(end, *want.NumberOr("end_by_s", 1e18) + 1e-6) << want.Where();
  if (want.Find("ending")) {
    EXPECT_EQ(*want.Text("ending"), execution::ToString(job.ending)) << want.Where();
  }
  if (want.Find("device")) {
    EXPECT_EQ(*want.Text("device"), DevicesOf(outcome, s.sim.cluster, j)) << want.Where();
  }
  if (want.Find("why")) {
    EXPECT_TRUE(std::regex_search(job.why, std::regex(*want.Text("why"))))
        << want.Where() << ": " << job.why;
  }
}

void CheckJobs(const Yaml& want, const Scenario& s, const execution::Outcome& outcome) {
  for (const auto& name : want.Keys()) {
    uint32_t j = 0;
    while (j < s.sim.jobs.size() && s.sim.jobs[j].job.job_id != name) ++j;
    ASSERT_LT(j, s.sim.jobs.size()) << want.Where() << ": no job " << name;
    CheckJob(*want.Get(name), s, outcome, j);
  }
}

void CheckEvents(const std::string& file, const std::string& actual) {
  if (Updating()) {
    ASSERT_TRUE(WriteFileAtomically(kFolder / file, actual));
    return;
  }
  const auto expected = ReadFile(kFolder / file);
  ASSERT_TRUE(expected) << expected.error().message;
  EXPECT_EQ(*expected, actual) << "tools/update_expected.py rewrites " << file;
}

class Scenarios : public ::testing::TestWithParam<std::string> {};

TEST_P(Scenarios, EndsAsExpected) {
  const fs::path path = kFolder / (GetParam() + ".yaml");
  Scenario s;
  const auto loaded = LoadScenario(path, s);
  std::string error_wanted;
  if (s.expect && s.expect->Find("error")) error_wanted = *s.expect->Text("error");
  if (!loaded && path.stem().string().starts_with("bad_")) {
    // A scenario that cannot be loaded says so in its name, and its text says how.
    const auto root = Yaml::Load(path.string());
    ASSERT_TRUE(root);
    const auto wanted = root->Get("expect")->Text("error");
    ASSERT_TRUE(wanted);
    EXPECT_TRUE(std::regex_search(loaded.error().message, std::regex(*wanted)))
        << loaded.error().message;
    return;
  }
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_TRUE(s.expect) << "a scenario without `expect`";
  for (const auto& name : s.policies) {
    SCOPED_TRACE(name);
    const Ran ran = RunOnce(s, name);
    if (!error_wanted.empty()) {
      ASSERT_FALSE(ran.outcome);
      EXPECT_TRUE(std::regex_search(ran.outcome.error().message, std::regex(error_wanted)))
          << ran.outcome.error().message;
      continue;
    }
    ASSERT_TRUE(ran.outcome) << ran.outcome.error().message;
    EXPECT_EQ(RunOnce(s, name).events, ran.events) << "same case, other bytes";
    const auto values = Values(*ran.outcome, s.sim.cluster.devices.size());
    for (const auto& key : s.expect->Keys()) {
      if (key == "jobs") {
        CheckJobs(*s.expect->Get(key), s, *ran.outcome);
      } else if (key == "events") {
        CheckEvents(*s.expect->Text(key), ran.events);
      } else if (key == "makespan_by_s") {
        EXPECT_LE(values.at("makespan_s"), *s.expect->Number(key) + 1e-6);
      } else {
        ASSERT_TRUE(values.contains(key)) << s.expect->Where() << ": unknown key " << key;
        if (Updating()) {
          fmt::print("ACTUAL {} {} {}\n", GetParam(), key, values.at(key));
        } else {
          CheckNumber(*s.expect, key, values.at(key));
        }
      }
    }
  }
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, Scenarios, ::testing::ValuesIn(Names()),
                         [](const auto& param) { return param.param; });

TEST(ScenarioFolder, HoldsThemAll) { EXPECT_GE(Names().size(), 25u); }

}  // namespace
}  // namespace hase
