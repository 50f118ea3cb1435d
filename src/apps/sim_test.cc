// What makes up a simulation: loads, bounds, snapshots and stories, on the shipped predictor and
// world W3.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "apps/job_story.h"
#include "apps/sim_bounds.h"
#include "apps/sim_inputs.h"
#include "apps/sizing.h"
#include "apps/snapshot.h"
#include "base/file.h"
#include "execution/event_log.h"
#include "measurement/metrics.h"
#include "placement/bounds.h"

namespace hase::apps {
namespace {

SimFlags Flags(const std::string& generate, const std::string& world = "W3") {
  SimFlags flags;
  flags.cluster = std::string(HASE_EXAMPLES) + "/mixed.yaml";
  // Few kinds: predicting them is most of the time.
  flags.generate = generate + ",models=resnet50|vgg11|mobilenet_v2|densenet121,batches=1|8|32";
  flags.world = world;
  return flags;
}

execution::Outcome RunUnder(const execution::SimCase& sim, const std::string& spec) {
  auto policy = placement::MakePolicy(spec);
  EXPECT_TRUE(policy);
  execution::NullJournal journal;
  auto outcome = execution::RunCase(sim, **policy, journal);
  EXPECT_TRUE(outcome) << spec << ": " << outcome.error().message;
  return std::move(*outcome);
}

TEST(SimLoadTest, TheLoadAskedForIsTheWorldsOwn) {
  for (const char* world : {"W2", "W3"}) {
    const auto sim = BuildSimCase(Flags("poisson,jobs=80,load=0.9", world), 3);
    ASSERT_TRUE(sim) << sim.error().message;
    EXPECT_NEAR(TrueLoad(**sim, SimTruth(**sim)), 0.9, 1e-6) << world;
  }
  const auto offline = BuildSimCase(Flags("offline,jobs=10"), 3);
  ASSERT_TRUE(offline);
  EXPECT_EQ(TrueLoad(**offline, SimTruth(**offline)), 0);
}

TEST(SimLoadTest, DeadlinesKeepTheirDistance) {
  const auto dense = BuildSimCase(Flags("poisson,jobs=60,load=2"), 5);
  const auto sparse = BuildSimCase(Flags("poisson,jobs=60,load=0.2"), 5);
  ASSERT_TRUE(dense && sparse);
  int deadlines = 0;
  for (size_t j = 0; j < (*dense)->jobs.size(); ++j) {
    const auto &a = (*dense)->jobs[j].job, &b = (*sparse)->jobs[j].job;
    ASSERT_EQ(a.deadline.has_value(), b.deadline.has_value());
    if (!a.deadline) continue;
    ++deadlines;
    EXPECT_NEAR(ToSeconds(*a.deadline - a.arrival), ToSeconds(*b.deadline - b.arrival), 1e-6);
  }
  EXPECT_GT(deadlines, 0);
}

// Jobs of one kind taken together, their loading apart, is a relaxation: the bound may only fall
// below that of the jobs one by one, and it does so by little.
TEST(SimBoundsTest, KindsTogetherStayJustBelowJobsOneByOne) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    const auto made = BuildSimCase(Flags("offline,jobs=60,exclusive=1,gang=0,deadline=0"), seed);
    ASSERT_TRUE(made);
    const auto& sim = **made;
    const SimTruth truth(sim);
    placement::BoundInstance one_by_one;
    for (const auto& g : truth.groups()) {
      one_by_one.classes.push_back({static_cast<int>(g.cards.size()), 1.0});
    }
    for (size_t j = 0; j < sim.jobs.size(); ++j) {
      placement::BoundJob job;
      for (size_t g = 0; g < truth.groups().size(); ++g) job.p_s.push_back(truth.Solo(j, g));
      one_by_one.jobs.push_back(job);
    }
    const double exact = placement::MakespanLowerBound(one_by_one);
    EXPECT_NEAR(LowerBounds(sim, truth).makespan_s, exact, exact * 1e-6);
    const double together = LowerBounds(sim, truth, /*most_alone=*/0).makespan_s;
    EXPECT_LT(together, exact);
    EXPECT_GE(together, exact * 0.93);
  }
}

TEST(SimBoundsTest, NoPolicyBeatsThem) {
  for (const char* world : {"W2", "W3"}) {
    for (uint64_t seed = 1; seed <= 2; ++seed) {
      const char* jobs = seed == 1 ? "offline,jobs=40,cut=0.3" : "bursty,jobs=40,load=1.5";
      const auto sim = BuildSimCase(Flags(jobs, world), seed);
      ASSERT_TRUE(sim);
      const auto bounds = LowerBounds(**sim, SimTruth(**sim));
      EXPECT_GT(bounds.makespan_s, 0);
      for (const char* policy : {"hase", "lpt-mct:sharing=on", "min-min"}) {
        const auto m = measurement::ComputeMetrics(RunUnder(**sim, policy), 8);
        EXPECT_GE(m.makespan_s, bounds.makespan_s * (1 - 1e-6)) << world << seed << policy;
        EXPECT_GE(m.mean_completion_s, bounds.mean_flow_s * (1 - 1e-6)) << world << seed << policy;
      }
    }
  }
}

// The contract of policy.h: a fresh policy, given the captured view, decides the same.
TEST(SnapshotTest, ReplaysToTheSameDecision) {
  const auto flags = Flags("poisson,jobs=80,load=1.2");
  int decided = 0;
  for (const char* spec : {"hase", "hase:objective=completion"}) {
    for (const int number : {0, 30, 80}) {
      const auto sim = BuildSimCase(flags, flags.seed);
      ASSERT_TRUE(sim);
      auto policy = placement::MakePolicy(spec);
      ASSERT_TRUE(policy);
      SnapshotWhen when;
      when.number = number;
      SnapshotPolicy snapshot(**policy, when, flags, spec, **sim);
      execution::NullJournal journal;
      ASSERT_TRUE(execution::RunCase(**sim, snapshot, journal));
      ASSERT_FALSE(snapshot.text().empty());
      const std::string path = testing::TempDir() + "/snapshot.json";
      std::ofstream(path) << snapshot.text();
      const auto read = ReadSnapshot(path);
      ASSERT_TRUE(read) << read.error().message;
      auto fresh = placement::MakePolicy((*read)->policy);
      ASSERT_TRUE(fresh);
      const auto plan = (*fresh)->Decide((*read)->View());
      EXPECT_EQ(PlanText(plan, *(*read)->sim), (*read)->plan) << spec << " decision " << number;
      decided += !(*read)->plan.empty();
    }
  }
  EXPECT_GE(decided, 3);  // empty plans would prove nothing
}

TEST(SnapshotTest, RefusesValuesOutOfRange) {
  const auto flags = Flags("poisson,jobs=40,load=1.2");
  const auto sim = BuildSimCase(flags, flags.seed);
  auto policy = placement::MakePolicy("hase");
  ASSERT_TRUE(sim && policy);
  SnapshotWhen when;
  when.number = 20;
  SnapshotPolicy snapshot(**policy, when, flags, "hase", **sim);
  execution::NullJournal journal;
  ASSERT_TRUE(execution::RunCase(**sim, snapshot, journal));
  const std::string path = testing::TempDir() + "/bent_snapshot.json";
  for (const char* bent :
       {R"("sharing": 9)", R"("sharing": -1)", R"("mode": 5)", R"("version": 99)", R"("gang": 0)",
        R"("gang": -1)", R"("gang": 4611686018427387904)", R"("gang": 2000)", R"("batch": 0)",
        R"("max_parallel": 0)", R"("now_ns": 9223372036854775807)", R"("now_ns": -5)",
        R"("arrival_ns": 9223372036854775807)"}) {
    const std::string key = std::string(bent).substr(0, std::string(bent).find(' '));
    const auto text = std::regex_replace(snapshot.text(), std::regex(key + " -?[0-9]+"), bent);
    ASSERT_NE(text, snapshot.text()) << bent;
    std::ofstream(path) << text;
    const auto read = ReadSnapshot(path);
    ASSERT_FALSE(read) << bent;
    EXPECT_NE(read.error().message.find("bent_snapshot.json"), std::string::npos);
  }
}

TEST(SnapshotTest, RefusesWhatDoesNotFit) {
  const std::string path = testing::TempDir() + "/bad_snapshot.json";
  std::ofstream(path) << R"({"format":"hase-snapshot","flags":{}})";
  const auto read = ReadSnapshot(path);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("bad_snapshot.json"), std::string::npos);
  EXPECT_FALSE(ParseSnapshotWhen("#-1"));
  EXPECT_FALSE(ParseSnapshotWhen("noon"));
  EXPECT_EQ(*ParseSnapshotWhen("#12")->number, 12);
  EXPECT_EQ(*ParseSnapshotWhen("1.5")->at, FromMillis(1500));
}

TEST(JobStoryTest, NamesBlockersPromisesAndWhoPassedBy) {
  const std::string log =
      R"({"t_ns":0,"seq":0,"kind":"arrived","job":"a","device":"","share_milli":0,"why":"","predicted_ns":0}
{"t_ns":0,"seq":1,"kind":"started","job":"a","device":"n/0","share_milli":1000,"why":"","predicted_ns":5000000000}
{"t_ns":1000000000,"seq":2,"kind":"arrived","job":"b","device":"","share_milli":0,"why":"","predicted_ns":0}
{"t_ns":1000000000,"seq":3,"kind":"reserved","job":"b","device":"n/0","share_milli":1000,"why":"waits","predicted_ns":6000000000}
{"t_ns":2000000000,"seq":4,"kind":"arrived","job":"c","device":"","share_milli":0,"why":"","predicted_ns":0}
{"t_ns":2000000000,"seq":5,"kind":"started","job":"c","device":"n/1","share_milli":1000,"why":"","predicted_ns":3000000000}
{"t_ns":7000000000,"seq":6,"kind":"finished","job":"a","device":"n/0","share_milli":1000,"why":"","predicted_ns":0}
{"t_ns":7000000000,"seq":7,"kind":"started","job":"b","device":"n/0","share_milli":1000,"why":"first","predicted_ns":9000000000}
{"t_ns":8500000000,"seq":8,"kind":"finished","job":"b","device":"n/0","share_milli":1000,"why":"","predicted_ns":0}
)";
  const auto events = execution::ParseEventLog("log", log);
  ASSERT_TRUE(events);
  const auto story = StoryOf("b", *events);
  EXPECT_EQ(story.arrived_s, 1);
  ASSERT_EQ(story.promises.size(), 1u);
  EXPECT_EQ(story.promises[0].from_s, 6);
  ASSERT_EQ(story.promises[0].blockers.size(), 1u);
  EXPECT_EQ(story.promises[0].blockers[0].job, "a");
  EXPECT_EQ(story.promises[0].blockers[0].predicted_end_s, 5);
  EXPECT_EQ(story.promises[0].blockers[0].ended_s, 7);
  EXPECT_EQ(story.passed_by, 1);
  ASSERT_EQ(story.runs.size(), 1u);
  EXPECT_EQ(story.runs[0].ended_s, 8.5);
  EXPECT_EQ(story.ending, "finished");
  EXPECT_LT(StoryOf("nobody", *events).arrived_s, 0);
}

TEST(SizingTest, NothingCheaperMeetsTheTarget) {
  SizeQuestion q;
  q.types = {"T4", "A100-SXM4-40GB"};
  q.prices = {0.5, 3};
  q.sim.generate = "offline,jobs=16,mean_s=20,gang=0,deadline=0,models=resnet50|vgg11";
  q.most = 8;
  q.policy = "mct";
  std::vector<double> tried;  // prices, in order
  q.target.makespan_s = 100;
  const auto answer =
      FindCheapest(q, [&](const std::vector<int>&, double price) { tried.push_back(price); });
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_TRUE(answer->found);
  EXPECT_LE(answer->makespan_s, 100);
  EXPECT_GE(answer->makespan_s, answer->lower_bound_s);
  EXPECT_EQ(answer->looked_at, answer->ruled_out + answer->simulated);
  EXPECT_TRUE(std::ranges::is_sorted(tried));
  EXPECT_EQ(tried.back(), answer->cost_per_hour);
  int cheaper = -1;  // without the empty cluster
  for (int a = 0; a <= q.most; ++a) {
    for (int b = 0; a + b <= q.most; ++b) cheaper += 0.5 * a + 3 * b < answer->cost_per_hour;
  }
  EXPECT_GT(answer->looked_at, cheaper);  // none of them was left out
  EXPECT_GT(answer->ruled_out, 0);
  q.most = 1;
  const auto none = FindCheapest(q);
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->found);
  q.target.makespan_s = 0;
  EXPECT_FALSE(FindCheapest(q));  // no deadlines
}

// A type that is too dear to be taken changes nothing about the others' cards.
TEST(SizingTest, OtherTypesToChooseFromLeaveTheCardsAsTheyAre) {
  const auto jobs = std::filesystem::temp_directory_path() / "hase_sizing_jobs.csv";
  std::string text = "job_id,model,batch,inputs\n";
  for (int i = 0; i < 16; ++i) text += fmt::format("j{},resnet50,8,{}\n", i, 4000 + 100 * i);
  ASSERT_TRUE(WriteFileAtomically(jobs.string(), text));
  SizeQuestion q;
  q.sim.jobs = jobs.string();
  q.most = 4;
  q.target.makespan_s = 1e6;
  const auto makespan = [&](std::vector<std::string> types, std::vector<double> prices) {
    q.types = std::move(types);
    q.prices = std::move(prices);
    const auto answer = FindCheapest(q);
    EXPECT_TRUE(answer) << answer.error().message;
    return answer->makespan_s;
  };
  const double alone = makespan({"T4"}, {1});
  EXPECT_GT(alone, 0);
  EXPECT_EQ(makespan({"T4", "L4"}, {1, 50}), alone);
  EXPECT_EQ(makespan({"L4", "T4"}, {50, 1}), alone);
  std::filesystem::remove(jobs);
}

}  // namespace
}  // namespace hase::apps
