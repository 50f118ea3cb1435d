// The service planner's acceptance run. Prints the tables of docs/services.md; run it from the
// repository root.
#include <CLI/CLI.hpp>

#include "plans.h"

int main(int argc, char** argv) {
  using namespace hase::bench;
  CLI::App app("Acceptance runs of the service planner (docs/services.md)", "bench_inss");
  app.require_subcommand(1);
  RunOptions options;
  int status = 0;
  const auto add = [&](const char* name, const char* help, int (*run)(const RunOptions&)) {
    auto* command = app.add_subcommand(name, help);
    command->add_option("--seeds", options.seeds, "Worlds per case");
    command->add_option("--fresh", options.fresh, "Draw this many cases instead of the committed");
    command->add_option("--first", options.first, "Seed of the first drawn case");
    command->add_option("--only", options.only, "Cases whose name contains this");
    command->add_option("--arrivals", options.arrivals, "poisson, bursty, diurnal or trace");
    command->add_option("--trace", options.trace, "Of requests, Azure's columns");
    command->add_flag("!--unprofiled", options.profiled, "Plan from the predictor alone");
    command->add_option("--margin", options.margin, "Of inss, in standard errors");
    command->add_flag("--detail", options.detail, "Every service of inss, planned against true");
    command->callback([&status, &options, run] { status = run(options); });
  };
  add("plans", "Throughput within the objectives, against rivals and the bound", RunPlans);
  add("cost", "Cost at equal objectives, against igniter and the bound", RunCost);
  add("fit", "Error of the share law on the world's surfaces", RunFit);
  add("parva", "ParvaGPU's rows from no profile point", RunParva);
  add("adapt", "Drifting rates with a burst: attainment and cost", RunAdapt);
  app.add_subcommand("replan", "One rate change at 64 GPUs")->callback([&] {
    status = RunReplan();
  });
  int most_devices = 1024;
  auto* scale = app.add_subcommand("scale", "Plan times at 64, 256 and 1,024 GPUs");
  scale->add_option("--most", most_devices, "Leave out clusters of more GPUs");
  scale->callback([&] { status = RunScale(most_devices); });
  CLI11_PARSE(app, argc, argv);
  return status;
}
