#!/usr/bin/env python3
"""Predicted against measured peak memory of the zoo on this machine's CPU.

  check_memory.py [--hase build/release/hase] [--batches 1,8] [--models a,b] [--json FILE]

Measures both peaks (while loading, and in the run) of every model in a worker process of its own
(`hase profile`, into a temporary state folder), and compares them with what `hase predict` says
from an empty state, that is from the shipped law alone. Prints a line per pair and the two figures
that count: how often a peak is under-predicted by more than 5 %, and the median over-prediction.
"""
import argparse
import json
import statistics
import subprocess
import tempfile

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--hase", default="build/release/hase")
parser.add_argument("--batches", default="1,8")
parser.add_argument("--models", help="default: the whole zoo")
parser.add_argument("--device", default="cpu-1c-q1")
parser.add_argument("--json", help="write every pair there")
args = parser.parse_args()


def run(*words):
    return json.loads(subprocess.run([args.hase, *words, "--json"], check=True, stdout=subprocess.PIPE).stdout)


models = args.models.split(",") if args.models else [row["name"] for row in run("zoo", "list")]
pairs = []
with tempfile.TemporaryDirectory() as measured, tempfile.TemporaryDirectory() as empty:
    for model in models:
        rows = run("profile", "--models", model, "--batches", args.batches, "--device", args.device,
                   "--state", measured, "--time-limit-s", "2")["profiles"]
        for row in rows:
            guess = run("predict", model, "--device", args.device, "--batch", str(row["batch"]), "--state", empty)
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
    ratios = [p["ratio"] for p in pairs if p["peak"] == peak]
    under = sum(r < 0.95 for r in ratios)
    print(f"{peak}: {len(ratios)} pairs, under-predicted by more than 5 %: {under} ({under / len(ratios):.1%}), "
          f"median over-prediction {statistics.median(r - 1 for r in ratios):.1%}")
