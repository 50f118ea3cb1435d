// Files as trtexec, perf_analyzer and torch.profiler write them (tests/imports, written by hand
// from the tools' documented formats), and what is wrong with damaged ones.
#include "latency/imports/imports.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/file.h"

namespace hase::latency {
namespace {

ImportLabel Label(const model::ModelKernels* kernels = nullptr) {
  ImportLabel label;
  label.model = "resnet50";
  label.device = "T4";
  label.batch = 8;
  label.kernels = kernels;
  return label;
}

Result<Imported> Read(const std::string& name, const std::string& text, const ImportLabel& label) {
  HASE_ASSIGN_OR_RETURN(const Importer* importer, FindImporter("", name, text));
  return importer->read(name, text, label);
}
Result<Imported> ReadFixture(const std::string& name, const ImportLabel& label) {
  HASE_ASSIGN_OR_RETURN(const std::string text, ReadFile("tests/imports/" + name));
  return Read(name, text, label);
}
std::string ErrorOf(const std::string& text, const ImportLabel& label = Label()) {
  const auto read = Read("f", text, label);
  return read ? "none" : read.error().message;
}
void ExpectHas(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Import, TrtexecTimesAreOneWholeModelSample) {
  const auto times = ReadFixture("trtexec_times.json", Label());
  ASSERT_TRUE(times) << times.error().message;
  ASSERT_EQ(times->samples.size(), 1u);
  const Sample& s = times->samples[0];
  EXPECT_TRUE(s.whole_model);
  EXPECT_EQ(s.source, "trtexec");
  EXPECT_EQ(s.model, "resnet50");
  EXPECT_EQ(s.batch, 8);
  EXPECT_EQ(s.repeats, 5);
  EXPECT_DOUBLE_EQ(s.latency_us, 2300);  // the median of latencyMs
  EXPECT_NEAR(s.spread, (2.9 - 2.1) / 2.3, 1e-9);
}

TEST(Import, TrtexecLayersAreTheModelsKernels) {
  model::ModelKernels kernels;
  kernels.kernels.resize(2);
  kernels.kernels[0].name = "conv1";
  kernels.kernels[0].flops = 77;
  kernels.kernels[1].name = "fc";
  const auto profile = ReadFixture("trtexec_profile.json", Label(&kernels));
  ASSERT_TRUE(profile) << profile.error().message;
  ASSERT_EQ(profile->samples.size(), 2u);
  EXPECT_EQ(profile->samples[0].kernel.flops, 77);
  EXPECT_DOUBLE_EQ(profile->samples[0].latency_us, 120);
  EXPECT_EQ(profile->samples[0].repeats, 400);
  EXPECT_FALSE(profile->samples[1].whole_model);
  ASSERT_EQ(profile->notes.size(), 1u);
  ExpectHas(profile->notes[0], "1 of 3 layers (20.0 % of the time) are no kernel of resnet50");
  ExpectHas(ErrorOf(*ReadFile("tests/imports/trtexec_profile.json")), "--model");
}

TEST(Import, PerfAnalyzerGivesTheServersComputeAtConcurrencyOne) {
  const auto table = ReadFixture("perf_analyzer.csv", Label());
  ASSERT_TRUE(table) << table.error().message;
  ASSERT_EQ(table->samples.size(), 1u);
  EXPECT_DOUBLE_EQ(table->samples[0].latency_us, 206 + 11781 + 19);
  ExpectHas(table->notes.at(0), "2 rows of concurrency above 1");
}

TEST(Import, TorchProfilerSumsTheKernelsOfAnOperator) {
  ImportLabel label = Label();
  label.runtime = model::Runtime::kPyTorch;
  const auto trace = ReadFixture("torch_profiler.json", label);
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->samples.size(), 2u);
  const Sample* conv = nullptr;
  const Sample* gemm = nullptr;
  for (const auto& s : trace->samples) {
    (s.kernel.op_class == model::OpClass::kConv ? conv : gemm) = &s;
  }
  ASSERT_TRUE(conv && gemm);
  EXPECT_EQ(conv->kernel.output, (model::Shape{8, 64, 112, 112}));
  EXPECT_EQ(conv->kernel.window.stride[0], 2);
  EXPECT_EQ(conv->kernel.k, 3 * 7 * 7);
  EXPECT_EQ(conv->repeats, 2);
  EXPECT_DOUBLE_EQ(conv->latency_us, 115);  // of 100 + 10 and 120
  EXPECT_EQ(gemm->kernel.m, 8);
  EXPECT_EQ(gemm->kernel.n, 1000);
  EXPECT_EQ(gemm->kernel.k, 2048);
  ExpectHas(trace->notes.at(0), "not imported");
}

TEST(Import, DamagedFilesAreOneClearLine) {
  ExpectHas(ErrorOf("hello\n"), "f: not a file of any tool known");
  ExpectHas(ErrorOf("[{\"latencyMs\": 1}, {\"latencyMs\": -2}]"),
            "f: run 2: latencyMs must be above 0");
  ExpectHas(ErrorOf("[{\"latencyMs\": \"x\"}]"), "f: run 1: latencyMs is no number");
  ExpectHas(ErrorOf("[{\"latencyMs\": 1"), "f: not a JSON list of objects");
  ExpectHas(ErrorOf("Concurrency,Inferences/Second\n1,5\n"), "no column 'Server Compute Infer'");
  ExpectHas(ErrorOf("Concurrency,Inferences/Second,Server Compute\n1,5,fast\n"), "f:2:");
  ExpectHas(ErrorOf("Concurrency,Inferences/Second,Server Compute\n4,5,100\n"),
            "f: no row of concurrency 1");
  ExpectHas(ErrorOf("Request Rate,Inferences/Second,Server Compute\n4,5,100\n"), "Concurrency");
  ExpectHas(ErrorOf("{\"traceEvents\": []}"), "f: no device kernels");
  ExpectHas(ErrorOf("{\"traceEvents\": [{\"cat\": \"kernel\"}]}"),
            "f: event 1: a kernel without a duration");
  ExpectHas(ErrorOf("{\"traceEvents\": [{\"cat\": \"kernel\", \"dur\": 3}]}"), "record_shapes");
  ExpectHas(ErrorOf("{\"traceEvents\": [{\"cat\": 5, \"name\": []}]}"), "f: no device kernels");
  const auto convolution = [](const char* input, const char* pad) {
    return fmt::format(
        R"({{"traceEvents": [{{"cat": "cpu_op", "name": "aten::convolution", "args": {{"External id": 1,
        "Input Dims": [{}, [8, 3, 3, 3]], "Concrete Inputs": ["", "", "", "[1, 1]", "{}", "[1, 1]",
        "False"]}}}}, {{"cat": "kernel", "dur": 3, "args": {{"External id": 1}}}}]}})",
        input, pad);
  };
  ExpectHas(ErrorOf(convolution("[8, 0, 9, 9]", "[1, 1]")), "record_shapes");
  ExpectHas(ErrorOf(convolution("[8, 3, 9, 9]", "[0, 3]")), "record_shapes");  // not square
  ExpectHas(ErrorOf(convolution("[8, 3, 9, 9]", "[2000000000, 2000000000]")), "record_shapes");
  EXPECT_EQ(FindImporter("nsys", "f", "").error().kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace hase::latency
