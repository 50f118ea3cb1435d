// The table of commands, in the order in which `hase --help` shows them.
#include "apps/cli/commands.h"

namespace hase::cli {
namespace {

constexpr Command kCommands[] = {
    {"zoo", "Models that HASE builds itself: list them, write them as ONNX",
     "  hase zoo list\n  hase zoo export resnet50 -o resnet50.onnx", SetUpZoo},
    {"inspect", "What a model computes, kernel by kernel, as its runtime will run it",
     "  hase inspect resnet50 --batch 8\n"
     "  hase inspect my.onnx --batch 1 --dim sequence=128 --json",
     SetUpInspect},
    {"train", "Train the latency predictor from measured data sets",
     "  hase train --data ../shared/data --out data/predictor.bin", SetUpTrain},
    {"evaluate", "Score the predictor on measured rows it was not trained on",
     "  hase evaluate --data ../shared/data --split geometry\n"
     "  hase evaluate --data ../shared/data --set neusight --holdout-device T4\n"
     "  hase evaluate --models --data ../shared/data/model_level\n"
     "  hase evaluate --pairs --data ../shared/data\n"
     "  hase evaluate --cpu --record profiles.jsonl\n"
     "  hase evaluate --cpu --replay tests/cpu/epyc_zoo.jsonl\n"
     "  hase evaluate --load --replay tests/load/epyc_2_cores.jsonl",
     SetUpEvaluate},
    {"plan", "Place services on shares of devices and judge the plan in a simulated world",
     "  hase plan --cluster examples/mixed.yaml --services examples/services.yaml", SetUpPlan},
    {"doctor", "Check what this machine offers HASE and what is missing", "  hase doctor --json",
     SetUpDoctor},
    {"explain", "Tell in numbers why a job waits, waited or runs where it does",
     "  hase explain j00012 --decisions decisions.jsonl\n"
     "  hase explain j00012 --events log.jsonl\n"
     "  hase explain j00012 --state snapshot.json",
     SetUpExplain},
    {"simulate", "Run policies on a simulated cluster, beside a lower bound",
     "  C=examples/mixed.yaml\n"
     "  hase simulate --cluster $C --jobs examples/jobs.csv --policy round-robin,hase\n"
     "  hase simulate --cluster $C --generate poisson,jobs=500,load=0.95 --seeds 1,2\n"
     "  hase simulate --cluster $C --generate offline --faults examples/faults.yaml",
     SetUpSimulate},
    {"size", "Find the cheapest cluster of given cards that meets deadlines or a makespan",
     "  hase size --types T4,L4,A100-SXM4-40GB --jobs jobs.csv\n"
     "  hase size --types T4,V100 --generate offline,jobs=100 --makespan 1800",
     SetUpSize},
    {"replay", "Simulate a queue that ran here, and compare with what happened",
     "  hase replay --state ~/.local/state/hase", SetUpReplay},
    {"run", "Run a queue of jobs on this machine's devices, for real",
     "  hase run --cluster examples/this_machine.yaml --jobs examples/jobs.csv\n"
     "  hase run --resume",
     SetUpRun},
    {"demo", "See HASE schedule real models on this machine, from nothing, in a few minutes",
     "  hase demo\n  hase demo --seeds 1,2,3 --json", SetUpDemo},
    {"devices", "List the devices of a cluster and what is known of them",
     "  hase devices\n  hase devices --cluster cluster.yaml --json\n  hase devices --watch",
     SetUpDevices},
    {"bench", "Measure this machine's devices by micro-benchmarks", "  hase bench", SetUpBench},
    {"profile", "Measure models on this machine's devices, whole and kernel by kernel",
     "  hase profile --models resnet50,mobilenet_v2 --batches 1,4", SetUpProfile},
    {"calibrate", "Measure a sweep of kernel geometries, for models never profiled",
     "  hase calibrate --device cpu-1c-q1", SetUpCalibrate},
    {"import", "Take in measurements that trtexec, perf_analyzer or torch.profiler made",
     "  hase import times.json --model resnet50 --device T4 --batch 8\n"
     "  hase import perf.csv --format perf_analyzer --model resnet50 --device A100",
     SetUpImport},
    {"predict", "How long a model takes on a device, with its interval, memory and kernels",
     "  hase predict resnet50 --device T4 --batch 8 --explain\n"
     "  hase predict vgg16 --device cpu-1c-q1 --load sm=1,residents=resnet18:1:0.5",
     SetUpPredict},
    {"worker", "", "", SetUpWorker},
};

}  // namespace

std::span<const Command> Commands() { return kCommands; }

}  // namespace hase::cli
