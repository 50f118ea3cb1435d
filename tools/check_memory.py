#!/usr/bin/env python3
"""Predicted against measured peak memory of the zoo on this machine's CPU.

  check_memory.py [--hase build/release/hase] [--batches 1,8] [--models a,b] [--json FILE] [--fit]

Measures both peaks (while loading, and in the run) of every model in a worker process of its own
(`hase profile`, into a temporary state folder), and compares them with what `hase predict` says
from an empty state, that is from the shipped law alone. Prints a line per pair and the two figures
that count: how often a peak is under-predicted by more than 5 %, and the median over-prediction.

--fit also prints the coefficients of data/memory_ort_cpu.yaml that these measurements give, and the
same two figures for every model with its family left out of the fit.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--hase", default="build/release/hase")
parser.add_argument("--batches", default="1,8")
parser.add_argument("--models", help="default: the whole zoo")
parser.add_argument("--device", default="cpu-1c-q1")
parser.add_argument("--fit", action="store_true", help="fit the law's coefficients to what is measured")
parser.add_argument("--json", help="write every pair there")
args = parser.parse_args()


def run(*words):
    return json.loads(subprocess.run([args.hase, *words, "--json"], check=True, stdout=subprocess.PIPE).stdout)


def shipped():
    """The coefficients of data/memory_ort_cpu.yaml, flat `key: number` lines."""
    text = (pathlib.Path(__file__).resolve().parent.parent / "data/memory_ort_cpu.yaml").read_text()
    rows = (line.split(":") for line in text.splitlines() if line and not line.startswith("#"))
    return {key: float(value) for key, value in rows}


BASE = shipped()["base_bytes"]  # a worker with ONNX Runtime loaded and no model
MARGIN = 1.05  # aimed at above what is measured: models differ from those of the fit


def features(inspected):
    """What src/latency/memory_model.h reads of a model."""
    convolution = ("conv", "depthwise_conv", "grouped_conv")
    kernels, memory = inspected["kernels"], inspected["memory_bytes"]
    of_convolutions = [k["bytes_weights"] for k in kernels if k["op_class"] in convolution]
    convolutions = sum(of_convolutions)
    return {"weights": max(memory["weights"], convolutions), "convolutions": convolutions,
            "largest": max(of_convolutions, default=0),
            "largest_other": max([k["bytes_weights"] for k in kernels if k["op_class"] not in convolution] or [0]),
            "kernels": len(kernels), "input": memory["input"], "output": memory["output"], "arena": memory["arena"]}


def law(f, c):
    loaded = c["run_fixed"] + c["run_per_kernel"] * f["kernels"] + f["weights"] + f["input"]
    reorder = c["reorder_fixed"] + c["reorder_largest"] * f["largest"] + c["reorder_per_kernel"] * f["kernels"]
    load = max(reorder + f["weights"] + f["convolutions"], c["pack_fixed"] + f["weights"] + f["largest_other"],
               loaded)
    return {"load": BASE + load, "run": BASE + loaded + c["run_arena"] * f["arena"] + f["output"]}


def loss(cases, c):
    """Relative error, an under-prediction nine times as dear: the law must rarely be too low."""
    total = 0
    for f, measured in cases:
        guess = law(f, c)
        for peak in ("load", "run"):
            error = guess[peak] / (MARGIN * measured[peak]) - 1
            total += error if error > 0 else -9 * error
    return total


def fit(cases):
    """Coordinate descent from round numbers, in steps that halve: few parameters, a smooth loss."""
    c = {"reorder_fixed": 20e6, "reorder_largest": 2.0, "reorder_per_kernel": 20e3, "pack_fixed": 20e6, "run_fixed": 20e6, "run_per_kernel": 20e3, "run_arena": 1.0}
    step = {key: 0.5 * value for key, value in c.items()}
    best = loss(cases, c)
    for _ in range(60):
        moved = False
        for key in c:
            for sign in (1, -1):
                trial = {**c, key: max(0, c[key] + sign * step[key])}
                value = loss(cases, trial)
                if value < best:
                    c, best, moved = trial, value, True
        if not moved:
            step = {key: value / 2 for key, value in step.items()}
    return c


def family(model):
    return next(name for name in ("resnet", "vgg", "densenet", "mobilenet", "yolo") if model.startswith(name))


def report(what, ratios):
    under = sum(r < 0.95 for r in ratios)
    print(f"{what}: {len(ratios)} pairs, under-predicted by more than 5 %: {under} ({under / len(ratios):.1%}), "
          f"median over-prediction {statistics.median(r - 1 for r in ratios):.1%}")



models = args.models.split(",") if args.models else [row["name"] for row in run("zoo", "list")]
pairs, cases = [], []
with tempfile.TemporaryDirectory() as measured, tempfile.TemporaryDirectory() as empty:
    for model in models:
        rows = run("profile", "--models", model, "--batches", args.batches, "--device", args.device,
                   "--state", measured, "--time-limit-s", "2")["profiles"]
        for row in rows:
            inspected = run("inspect", model, "--batch", str(row["batch"]))
            guess = run("predict", model, "--device", args.device, "--batch", str(row["batch"]), "--state", empty)
            cases.append((model, features(inspected), {p: row[f"memory_{p}_bytes"] for p in ("load", "run")}))
            for peak in ("load", "run"):
                key = f"memory_{peak}_bytes"
                pairs.append({"model": model, "batch": row["batch"], "peak": peak, "measured_bytes": row[key],
                              "predicted_bytes": guess[key], "ratio": guess[key] / row[key]})
                print(f"{model:20} {row['batch']:4} {peak:5} measured {row[key] / 2**20:8.0f} MiB"
                      f"  predicted {guess[key] / 2**20:8.0f} MiB  {guess[key] / row[key] - 1:+6.1%}", flush=True)
if args.json:
    with open(args.json, "w") as out:
        json.dump(pairs, out, indent=1)
for peak in ("load", "run"):
    report(peak, [p["ratio"] for p in pairs if p["peak"] == peak])
if args.fit:
    # `law` repeats src/latency/memory_model.cc: with the shipped numbers both must say the same.
    for pair, (_, f, _) in zip(pairs[::2], cases):
        ours = law(f, shipped())["load"]
        if abs(ours / pair["predicted_bytes"] - 1) > 1e-3:
            sys.exit(f"{pair['model']}: the law of this script says {ours:.0f}, hase {pair['predicted_bytes']}")
    print("fit:", {key: float(f"{value:.3g}") for key, value in fit([(f, m) for _, f, m in cases]).items()})
    left_out = {"load": [], "run": []}
    for name in sorted({family(model) for model, _, _ in cases}):
        c = fit([(f, m) for model, f, m in cases if family(model) != name])
        for model, f, measured in cases:
            if family(model) == name:
                for peak in ("load", "run"):
                    left_out[peak].append(law(f, c)[peak] / measured[peak])
    for peak in ("load", "run"):
        report(f"{peak}, family left out of the fit", left_out[peak])
