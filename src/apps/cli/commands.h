// The setup functions that commands.cc lists; each is defined in the file of its name.
#pragma once

#include "apps/cli/command.h"

namespace hase::cli {

Action SetUpDemo(CLI::App& command);
Action SetUpDoctor(CLI::App& command);
Action SetUpPlan(CLI::App& command);
Action SetUpExplain(CLI::App& command);
Action SetUpSimulate(CLI::App& command);
Action SetUpImport(CLI::App& command);
Action SetUpSize(CLI::App& command);
Action SetUpReplay(CLI::App& command);
Action SetUpInspect(CLI::App& command);
Action SetUpRun(CLI::App& command);
Action SetUpBench(CLI::App& command);
Action SetUpDevices(CLI::App& command);
Action SetUpDoctor(CLI::App& command);
Action SetUpProfile(CLI::App& command);
Action SetUpEvaluate(CLI::App& command);
Action SetUpTrain(CLI::App& command);
Action SetUpCalibrate(CLI::App& command);
Action SetUpPredict(CLI::App& command);
Action SetUpWorker(CLI::App& command);
Action SetUpZoo(CLI::App& command);

}  // namespace hase::cli
