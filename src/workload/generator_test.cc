#include "workload/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "workload/openb.h"
#include "workload/reader.h"

namespace hase::workload {
namespace {

using ::testing::HasSubstr;

cluster::Cluster Cards(int slow, int fast) {
  cluster::Cluster c;
  c.types.resize(2);
  c.types[0].name = "slow";
  c.types[1].name = "fast";
  for (int i = 0; i < slow + fast; ++i) {
    cluster::Device d;
    d.id = DeviceId(static_cast<uint32_t>(i));
    d.type = DeviceTypeId(i < slow ? 0 : 1);
    c.devices.push_back(d);
  }
  return c;
}

// 10 ms per input on the slow type, a quarter of it on the fast one.
std::optional<double> Speed(const std::string& model, DeviceTypeId type, int64_t batch) {
  if (model == "vgg19") return std::nullopt;
  return 0.01 * static_cast<double>(batch) / (type.index() == 0 ? 1 : 4);
}

TEST(GeneratorSpec, SaysWhatIsWrong) {
  EXPECT_TRUE(ParseGeneratorSpec("bursty,jobs=10,load=0.5,batches=1|8,models=resnet50"));
  const auto message = [](const char* text) { return ParseGeneratorSpec(text).error().message; };
  EXPECT_THAT(message("sometimes"), HasSubstr("unknown arrivals 'sometimes'"));
  EXPECT_THAT(message("poisson,load=-1"), HasSubstr("load=-1 must be a number between"));
  EXPECT_THAT(message("poisson,laod=1"), HasSubstr("unknown key 'laod'"));
  EXPECT_THAT(message("poisson,jobs"), HasSubstr("'jobs' is not key=value"));
  EXPECT_THAT(message("poisson,exclusive=0.9,gang=0.2"), HasSubstr("above 1"));
  EXPECT_THAT(message("poisson,jobs=5,jobs=6"), HasSubstr("'jobs' twice"));
  EXPECT_THAT(message("poisson,jobs=1.5"), HasSubstr("jobs=1.5 must be a whole number"));
  EXPECT_THAT(message("poisson,jobs=1000000"), HasSubstr("between 1 and 200000"));
}

class ArrivalKinds : public ::testing::TestWithParam<const char*> {};
TEST_P(ArrivalKinds, BringTheAskedLoadAndMix) {
  auto spec = *ParseGeneratorSpec(std::string(GetParam()) + ",jobs=4000,load=0.8");
  const auto cluster = Cards(6, 2);
  auto jobs = Generate(spec, 7, cluster, Speed);
  ASSERT_TRUE(jobs);
  // Each job's device seconds at the harmonic mean of the batch times: 8 / (6 / 10 ms + 2 / 2.5
  // ms).
  const double per_input = 8 / (6 / 0.01 + 2 / 0.0025);
  double work = 0;
  int special = 0;
  std::set<std::string> models;
  for (size_t i = 0; i < jobs->size(); ++i) {
    const Job& j = (*jobs)[i];
    work += static_cast<double>(j.inputs) * per_input;
    special += j.sharing == Sharing::kNever || j.gang > 1;
    EXPECT_EQ(j.inputs % j.batch, 0);
    EXPECT_GE(j.arrival, i > 0 ? (*jobs)[i - 1].arrival : Nanos(0));
    EXPECT_GT(j.deadline.value_or(Nanos::Max()), j.arrival);
    models.insert(j.model);
  }
  EXPECT_EQ(models.size(), 23u);  // all but the one that runs nowhere
  EXPECT_GE(special, 4000 * 0.20);
  if (std::string(GetParam()) == "offline") {
    EXPECT_EQ(jobs->back().arrival, Nanos(0));
  } else {
    EXPECT_NEAR(work / ToSeconds(jobs->back().arrival) / 8, 0.8, 0.01);
  }
}
INSTANTIATE_TEST_SUITE_P(All, ArrivalKinds,
                         ::testing::Values("offline", "poisson", "bursty", "diurnal"));

// Squared coefficient of variation of the gaps: 1 for Poisson, far above it in bursts.
TEST(Generator, BurstsAreBursty) {
  const auto variation = [](const char* arrivals) {
    auto jobs =
        *Generate(*ParseGeneratorSpec(std::string(arrivals) + ",jobs=4000"), 3, Cards(4, 4), Speed);
    double sum = 0, squares = 0;
    for (size_t i = 1; i < jobs.size(); ++i) {
      const double gap = ToSeconds(jobs[i].arrival - jobs[i - 1].arrival);
      sum += gap;
      squares += gap * gap;
    }
    const double n = static_cast<double>(jobs.size() - 1), mean = sum / n;
    return (squares / n - mean * mean) / (mean * mean);
  };
  EXPECT_NEAR(variation("poisson"), 1, 0.2);
  EXPECT_GT(variation("bursty"), 5);
}

TEST(Generator, SameSeedSameJobsOtherSeedOthers) {
  const auto spec = *ParseGeneratorSpec("poisson,jobs=50");
  const auto text = [&](uint64_t seed) {
    return WriteJobsCsv(*Generate(spec, seed, Cards(2, 2), Speed));
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

TEST(Generator, NamesTheModelThatHasNoTime) {
  const auto spec = *ParseGeneratorSpec("poisson,models=resnet50|vgg19");
  const auto jobs = Generate(spec, 1, Cards(1, 1), Speed);
  ASSERT_FALSE(jobs);
  EXPECT_EQ(jobs.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(jobs.error().message, HasSubstr("model 'vgg19' is unknown"));
}

TEST(Generator, SaysWhereNothingRuns) {
  auto spec = *ParseGeneratorSpec("poisson,models=vgg19");
  EXPECT_THAT(Generate(spec, 1, Cards(1, 1), Speed).error().message,
              HasSubstr("none of its models"));
}

constexpr const char* kTasks =
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\n"
    "p0,4000,8192,1,500,,LS,Running,100,700,100\n"
    "p1,4000,8192,0,0,,LS,Running,100,700,100\n"
    "p2,8000,4096,4,1000,,BE,Running,50,5000,60\n"
    "p3,1000,1024,1,200,,BE,Pending,60,,\n";

std::optional<double> SpeedOfAll(const std::string&, DeviceTypeId type, int64_t batch) {
  return Speed("resnet50", type, batch);
}

TEST(Openb, TasksBecomeJobsThatTakeAsLong) {
  const auto cluster = Cards(4, 4);
  auto jobs = ParseOpenbTasks("t.csv", kTasks, {}, 1, cluster, SpeedOfAll);
  ASSERT_TRUE(jobs) << jobs.error().message;
  ASSERT_EQ(jobs->size(), 2u);  // no GPU, and never ran
  const Job& gang = (*jobs)[0];
  EXPECT_EQ(gang.job_id, "p2");
  EXPECT_EQ(gang.gang, 4);
  EXPECT_EQ(gang.sharing, Sharing::kNever);
  EXPECT_EQ(gang.host_cores_milli, 2000);
  EXPECT_EQ(gang.host_memory, MiB(1024));
  const Job& half = (*jobs)[1];
  EXPECT_EQ(half.arrival, FromSeconds(50));
  // 600 s of half a card.
  const double per_input = 8 / (4 / 0.01 + 4 / 0.0025);
  EXPECT_NEAR(static_cast<double>(half.inputs) * per_input, 300, 1);
  OpenbOptions compressed;
  compressed.load = 1;
  auto fast = ParseOpenbTasks("t.csv", kTasks, compressed, 1, cluster, SpeedOfAll);
  ASSERT_TRUE(fast);
  EXPECT_NE(fast->back().arrival, jobs->back().arrival);
}

TEST(Openb, BadRowsNameTheirPlace) {
  std::string text = kTasks;
  text += "p4,1,1,1,2000,,BE,Running,1,2,1\n";
  EXPECT_THAT(ParseOpenbTasks("t.csv", text, {}, 1, Cards(1, 1), Speed).error().message,
              HasSubstr("t.csv:6:4 (num_gpu)"));
}

}  // namespace
}  // namespace hase::workload
