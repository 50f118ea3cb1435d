// Recordings of CPU profiles as text, and what the predictor reaches on the one that is shipped
// (tests/cpu, `hase evaluate --cpu --record`).
#include "latency/cpu_recording.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/paths.h"
#include "latency/cpu_evaluation.h"
#include "model/library.h"

namespace hase::latency {
namespace {

Sample Copy(const std::string& name, double us) {
  Sample s;
  s.kernel.name = name;
  s.kernel.op = "Concat";
  s.kernel.op_class = model::OpClass::kDataMovement;
  s.kernel.inputs = {{1, 8, 4, 4}, {1, 8, 4, 4}};
  s.kernel.output = {1, 16, 4, 4};
  s.kernel.bytes_activations = s.kernel.bytes_written = 1024;
  s.kernel.reuse = {.activations = 1 << 20, .weights = 0, .output = 1 << 25};
  s.model = "m";
  s.device = "cpu-1c-q1";
  s.source = "profile";
  s.latency_us = us;
  s.repeats = 3;
  return s;
}

TEST(CpuRecording, GivesBackWhatWasMeasured) {
  CpuRecording recording{"machine", "cpu-1c-q1", {Copy("b", 2.5), Copy("a", 4)}};
  recording.samples.push_back(recording.samples.back());
  recording.samples.back().whole_model = true;
  const std::string text = ToJsonLines(recording);
  const auto again = ParseCpuRecording("f", text);
  ASSERT_TRUE(again) << again.error().message;
  ASSERT_EQ(again->samples.size(), 3u);
  EXPECT_TRUE(again->samples[0].whole_model);
  EXPECT_EQ(again->samples[1].kernel, recording.samples[0].kernel);
  EXPECT_EQ(again->samples[1].latency_us, 2.5);
  EXPECT_EQ(again->samples[2].kernel.name, "a");
  EXPECT_EQ(again->device, "cpu-1c-q1");
  EXPECT_EQ(ToJsonLines(*again), text);
}

TEST(CpuRecording, BadLinesAreNamed) {
  const std::string some = ToJsonLines({"x", "cpu-1c-q1", {Copy("a", 1)}});
  const std::string head = some.substr(0, some.find('\n') + 1);
  const auto message = [](const std::string& text) {
    const auto read = ParseCpuRecording("f", text);
    return read ? std::string() : read.error().message;
  };
  EXPECT_TRUE(message("{}\n").starts_with("f:1: "));
  EXPECT_EQ(message(head), "f: holds no profile");
  const std::string line =
      head + "{\"source\":\"profile\",\"model\":\"m\",\"batch\":1,\"kernels\":";
  EXPECT_EQ(message(line + "[[1]]}\n"), "f:2: a kernel is an array of 22 values");
  EXPECT_TRUE(message(line + "[\n").starts_with("f:2: "));
  std::string other = some;
  other.replace(other.find("reuse_output"), 12, "reuse_of_all");
  EXPECT_TRUE(message(other).starts_with("f:1: columns differ"));
  std::string zero = some;
  zero.replace(zero.find(",1.0,"), 5, ",0.0,");
  EXPECT_EQ(message(zero), "f:2: us: a time must be above 0");
}

TEST(CpuRecording, ValuesThatCannotBeAreNamed) {
  const std::string some = ToJsonLines({"x", "cpu-1c-q1", {Copy("a", 1.5)}});
  ASSERT_TRUE(ParseCpuRecording("f", some));
  struct Case {
    std::string from, to, expected;
  };
  const Case cases[] = {
      {"\"machine\"", "\"machin\"", "f:1: unknown key 'machin'"},
      {"cpu-1c-q1", "", "f:1: device: is empty"},
      {"cpu-1c-q1", "T4", "f:1: device: 'T4' is no CPU partition"},
      {"\"profiles\":1", "\"profiles\":2", "f: its first line says 2 profiles, it holds 1"},
      {"\"source\":\"profile\"", "\"source\":\"x\"", "f:2: source: 'x' is neither"},
      {"\"batch\":1", "\"batch\":1.5", "f:2: batch: 1.5 is no whole number between 1"},
      {"\"batch\":1", "\"batch\":0", "f:2: batch: 0 is no whole number"},
      {"\"batch\":1", "\"batch\":4611686018427387904", "f:2: batch: 4611686018427387904 is no"},
      {"\"batch\":1", "\"batch\":1,\"more\":1", "f:2: unknown key 'more'"},
      {"\"batch\":1", "\"batch\":1,\"whole_runs\":3", "f:2: key 'whole_us' is missing"},
      {"1x16x4x4", "99999999999x99999999999", "f:2: output: '99999999999x"},
      {"1x16x4x4", "-1x16", "f:2: output: '-1x16' is no shape"},
      {"1x16x4x4", "", "f:2: output: '' is no shape"},
      {"1x8x4x4;1x8x4x4", "1x8x4x4;big", "f:2: inputs: "},
      {"1,1,1,1,0,0,0,0,1,1,1", "0,0,0,0,0,0,0,0,0,0,0", "f:2: window: "},
      {"1,1,1,1,0,0,0,0,1,1,1", "7", "f:2: window: '7' is no window"},
      {",1.5,0.0,3]", ",1.5,-0.5,3]", "f:2: spread: -0.5 is no number between 0"},
      {",1.5,0.0,3]", ",1.5,0.0,0]", "f:2: repeats: 0 is no whole number"},
      {",1.5,0.0,3]", ",1e308,0.0,3]", "f:2: us: 1e+308 is no number"},
      {",0,1024,", ",1e30,1024,", "f:2: flops: 1e+30 is no whole number"},
  };
  for (const auto& c : cases) {
    std::string text = some;
    const size_t at = text.find(c.from);
    ASSERT_NE(at, std::string::npos) << c.from;
    text.replace(at, c.from.size(), c.to);
    const auto read = ParseCpuRecording("f", text);
    ASSERT_FALSE(read) << c.to;
    EXPECT_TRUE(read.error().message.starts_with(c.expected)) << read.error().message;
  }
  const std::string head = some.substr(0, some.find('\n') + 1);
  const std::string profile = some.substr(head.size());
  EXPECT_EQ(ParseCpuRecording("f", head + profile + profile).error().message,
            "f:3: m at batch 1 twice");
  std::string bare = profile.substr(0, profile.find("[[")) + "[]}\n";
  EXPECT_EQ(ParseCpuRecording("f", head + bare).error().message,
            "f:2: kernels: expected a list that is not empty");
}

// Model families left out in turn, on profiles that were measured once. Guards at what was reached.
TEST(CpuRecording, FamiliesLeftOutArePredictedOnTheShippedProfiles) {
  const auto text = ReadFile("tests/cpu/epyc_zoo.jsonl");
  ASSERT_TRUE(text);
  auto recording = ParseCpuRecording("epyc_zoo.jsonl", *text);
  ASSERT_TRUE(recording) << recording.error().message;
  model::ModelLibrary library(*DataDir());
  const auto kernels = [&](const std::string& name,
                           int64_t batch) -> Result<const model::ModelKernels*> {
    HASE_ASSIGN_OR_RETURN(const ModelId id, library.Intern({.name = name, .runtime = {}}));
    return library.Kernels(id, model::Runtime::kOrtCpu, batch);
  };
  cluster::DeviceType type;
  type.name = recording->device;
  type.spec.kind = cluster::DeviceKind::kCpu;
  const auto result = EvaluateCpu(recording->samples, type, kernels, true);
  ASSERT_TRUE(result) << result.error().message;
  const auto summary = [](const std::vector<CpuScore>& scores) {
    std::vector<const CpuScore*> all;
    for (const auto& s : scores) all.push_back(&s);
    return Summarise(all);
  };
  const CpuSummary whole = summary(result->models), parts = summary(result->kernels);
  EXPECT_EQ(result->folds, 5);
  EXPECT_EQ(whole.rows, 24);
  EXPECT_EQ(parts.rows, 2848);
  EXPECT_LE(whole.mape, 0.08);
  EXPECT_GE(whole.r2_log, 0.95);
  EXPECT_LE(parts.mape, 0.10);
  EXPECT_GE(parts.r2_log, 0.95);
}

// Rows of older stores lack it; the lists of the zoo know it, and say what was recorded.
TEST(CpuRecording, ReuseIsFilledInFromTheKernelLists) {
  const auto text = ReadFile("tests/cpu/epyc_zoo.jsonl");
  ASSERT_TRUE(text);
  auto recording = ParseCpuRecording("epyc_zoo.jsonl", *text);
  ASSERT_TRUE(recording);
  auto old = recording->samples;
  for (auto& s : old) s.kernel.reuse = {};
  model::ModelLibrary library(*DataDir());
  FillReuse(old, [&](const std::string& name, int64_t batch) -> Result<const model::ModelKernels*> {
    HASE_ASSIGN_OR_RETURN(const ModelId id, library.Intern({.name = name, .runtime = {}}));
    return library.Kernels(id, model::Runtime::kOrtCpu, batch);
  });
  for (size_t i = 0; i < old.size(); ++i) {
    if (old[i].source == "profile" && old[i].model == "yolov8n") {
      EXPECT_EQ(old[i].kernel, recording->samples[i].kernel);
    }
  }
}

}  // namespace
}  // namespace hase::latency
