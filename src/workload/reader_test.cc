#include "workload/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace hase::workload {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHeader =
    "job_id,model,batch,inputs,arrival_s,priority,deadline_s,owner,max_parallel,gang,sharing,"
    "device_types,runtime,precision\n";

TEST(JobsReader, ReadsAllFieldsAndDefaults) {
  auto jobs = ParseJobsCsv("j.csv", std::string(kHeader) +
                                        "a,resnet50,8,640,1.5,2,90,ann,4,1,same-owner,T4|V100,"
                                        "tensorrt,fp16\nb,vgg16,,,,,,,,,,,,\n");
  ASSERT_TRUE(jobs) << jobs.error().message;
  const Job& a = (*jobs)[0];
  EXPECT_EQ(a.arrival, FromSeconds(1.5));
  EXPECT_EQ(a.deadline, FromSeconds(90));
  EXPECT_EQ(a.sharing, Sharing::kSameOwner);
  EXPECT_EQ(a.device_types, (std::vector<std::string>{"T4", "V100"}));
  EXPECT_EQ(a.runtime, model::Runtime::kTensorRt);
  EXPECT_EQ(a.precision, model::Precision::kFp16);
  const Job& b = (*jobs)[1];
  EXPECT_EQ(b.batch, 1);
  EXPECT_EQ(b.inputs, 1);
  EXPECT_EQ(b.sharing, Sharing::kAny);
  EXPECT_FALSE(b.deadline);
}

TEST(JobsReader, JsonLinesSayTheSame) {
  auto jobs = ParseJobsJson(
      "j.jsonl",
      "{\"job_id\":\"a\",\"model\":\"m\",\"inputs\":5,\"arrival_s\":0.25,\"x_note\":1}\n\n"
      "{\"job_id\":\"b\",\"model\":\"m\",\"sharing\":\"never\"}\n");
  ASSERT_TRUE(jobs) << jobs.error().message;
  EXPECT_EQ((*jobs)[0].arrival, FromSeconds(0.25));
  EXPECT_EQ((*jobs)[1].sharing, Sharing::kNever);
}

TEST(JobsReader, WhatIsWrittenReadsBack) {
  auto jobs =
      ParseJobsCsv("j.csv", std::string(kHeader) +
                                "\"a,1\",m,8,640,0.000000001,2,90,\"o\"\"x\",4,1,never,T4|V100,"
                                "ort-cpu,int8\nb,m,,,123456.789,,,,,2,,,,\n");
  ASSERT_TRUE(jobs) << jobs.error().message;
  const std::string text = WriteJobsCsv(*jobs);
  auto again = ParseJobsCsv("j.csv", text);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(WriteJobsCsv(*again), text);
  EXPECT_EQ((*again)[0].arrival, Nanos(1));
  EXPECT_EQ((*again)[0].owner, "o\"x");
  EXPECT_EQ((*again)[1].gang, 2);
}

struct Bad {
  const char* text;
  const char* message;
};
class BadJobs : public ::testing::TestWithParam<Bad> {};
TEST_P(BadJobs, NameThePlace) {
  auto jobs = ParseJobsCsv("j.csv", GetParam().text);
  ASSERT_FALSE(jobs);
  EXPECT_THAT(jobs.error().message, HasSubstr(GetParam().message));
}
INSTANTIATE_TEST_SUITE_P(
    All, BadJobs,
    ::testing::Values(
        Bad{"job_id,model\n", "j.csv: no jobs"},
        Bad{"job_id,model\na,m\na,m\n",
            "j.csv:3:1 (job_id): job_id 'a' stands already at j.csv:2:1 (job_id)"},
        Bad{"job_id,model\n,m\n", "j.csv:2:1 (job_id): empty"},
        Bad{"job_id,model\na,\n", "j.csv:2:2 (model): empty"},
        Bad{"job_id,model,batch\na,m,0\n", "j.csv:2:3 (batch): 0 must be between 1 and"},
        Bad{"job_id,model,inputs\na,m,0\n", "j.csv:2:3 (inputs): 0 must be between 1 and"},
        Bad{"job_id,model,inputs\na,m,-5\n", "j.csv:2:3 (inputs)"},
        Bad{"job_id,model,arrival_s\na,m,nan\n", "'nan' is not a finite number"},
        Bad{"job_id,model,arrival_s\na,m,-1\n", "-1 must be between 0 and"},
        Bad{"job_id,model,arrival_s\na,m,1e300\n", "must be between 0 and 1e+09 seconds"},
        Bad{"job_id,model,arrival_s,deadline_s\na,m,5,5\n",
            "the deadline 5 s is not after the arrival"},
        Bad{"job_id,model,sharing\na,m,sometimes\n",
            "j.csv:2:3 (sharing): unknown sharing 'sometimes'"},
        Bad{"job_id,model,gang\na,m,0\n", "(gang): 0 must be"},
        Bad{"job_id,model,gang,max_parallel\na,m,2,2\n", "cannot be cut as well"},
        Bad{"job_id,model,runtime\na,m,cuda\n", "j.csv:2:3 (runtime)"},
        Bad{"job_id,model,precision\na,m,fp7\n", "j.csv:2:3 (precision)"},
        Bad{"job_id,model,prio\na,m,1\n", "j.csv:1:3: unknown column 'prio'"},
        Bad{"job_id\na\n", "column 'model' is missing"}));

TEST(JobsReader, JsonErrorsNameTheLine) {
  const auto message = [](const char* text) {
    return ParseJobsJson("j.jsonl", text).error().message;
  };
  EXPECT_EQ(message("{\n"), "j.jsonl:1: not a JSON object on one line");
  EXPECT_EQ(message("{\"job_id\":\"a\",\"model\":\"m\",\"prio\":1}"),
            "j.jsonl:1: unknown key 'prio'");
  EXPECT_EQ(message("\n{\"job_id\":\"a\",\"model\":\"m\",\"inputs\":1.5}"),
            "j.jsonl:2 (inputs): '1.5' is not a whole number");
  EXPECT_EQ(message("{\"job_id\":\"a\",\"model\":\"m\",\"inputs\":18446744073709551615}"),
            "j.jsonl:1 (inputs): '18446744073709551615' is not a whole number");
}

class ServicesFile : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() /
      ("hase_services_" +
       std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
};

TEST_F(ServicesFile, ReadsRatesFromAFileBesideIt) {
  Write("r.csv", "time_s,rate_rps\n0,10\n60,25.5\n");
  const auto path =
      Write("s.yaml",
            "services:\n  - {name: a, model: resnet50, rate_file: r.csv, slo_ms: 50}\n"
            "  - {name: b, model: vgg16, rate_rps: 7, slo_ms: 20, slo_percentile: "
            "0.95, max_batch: 8}\n");
  auto services = LoadServices(path);
  ASSERT_TRUE(services) << services.error().message;
  ASSERT_EQ((*services)[0].rate.size(), 2u);
  EXPECT_EQ((*services)[0].rate[1].time, FromSeconds(60));
  EXPECT_EQ((*services)[1].rate[0].rate_rps, 7);
  EXPECT_EQ((*services)[1].max_batch, 8);
}

TEST_F(ServicesFile, ErrorsNameThePlace) {
  const auto message = [this](const std::string& line) {
    auto services = LoadServices(Write("s.yaml", "services:\n  - {" + line + "}\n"));
    return services ? std::string("accepted") : services.error().message;
  };
  EXPECT_THAT(message("name: a, model: m, rate_rps: -1, slo_ms: 5"),
              HasSubstr("s.yaml:2:35: rate_rps -1 must be between 0 and"));
  EXPECT_THAT(message("name: a, model: m, rate_rps: .nan, slo_ms: 5"), HasSubstr("s.yaml:2:35"));
  EXPECT_THAT(message("name: a, model: m, slo_ms: 5"), HasSubstr("rate_rps or rate_file"));
  EXPECT_THAT(message("name: a, model: m, rate_rps: 1, slo_ms: 0"), HasSubstr("slo_ms 0 must be"));
  EXPECT_THAT(message("name: a, model: m, rate_rps: 1, slo_ms: 5, slo_percentile: 99"),
              HasSubstr("slo_percentile 99"));
  EXPECT_THAT(message("name: a, model: m, rate_rps: 1, slo_ms: 5, max_batch: 0"),
              HasSubstr("max_batch 0"));
  EXPECT_THAT(message("name: a, modle: m, rate_rps: 1, slo_ms: 5"),
              HasSubstr("unknown key 'modle'"));
  EXPECT_THAT(message("name: a, model: m, rate_file: none.csv, slo_ms: 5"), HasSubstr("none.csv"));
}

TEST(Rates, MustGrowAndNotBeNegative) {
  EXPECT_THAT(ParseRates("r.csv", "time_s,rate_rps\n5,1\n5,2\n").error().message,
              HasSubstr("r.csv:3:1 (time_s): times must grow"));
  EXPECT_THAT(ParseRates("r.csv", "time_s,rate_rps\n0,-2\n").error().message,
              HasSubstr("r.csv:2:2 (rate_rps): rate -2 must not be negative"));
}

}  // namespace
}  // namespace hase::workload
