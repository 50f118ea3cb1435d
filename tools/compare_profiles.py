#!/usr/bin/env python3
"""How far two profiles of the same models on the same device differ: the floor of any predictor.

  hase profile --models resnet50,yolov5n --device cpu-1c-q1 --state A
  hase profile --models resnet50,yolov5n --device cpu-1c-q1 --state B
  tools/compare_profiles.py A B [--device cpu-1c-q1]

A and B may be recordings (hase evaluate --cpu --record FILE) as well.

Kernels of 20 us and more in A, batch 1, matched by model, name and turn; |B / A - 1| by op class.
Then, within A alone: the same geometry met several times in one model, each against the median of
the others.
"""
import argparse
import collections
import json
import os
import sqlite3
import statistics
import sys


def recorded(path):
    """The profiles of a recording as rows of samples.db."""
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    columns = lines[0]["columns"]
    for line in lines[1:]:
        if line["source"] != "profile" or line["batch"] != 1:
            continue
        if "whole_us" in line:
            yield {"model": line["model"], "whole_model": 1, "latency_us": line["whole_us"]}
        for values in line["kernels"]:
            row = dict(zip(columns, values), model=line["model"], whole_model=0)
            row["latency_us"] = row.pop("us")
            yield row


def stored(state, device):
    try:
        base = sqlite3.connect(f"file:{state}/samples.db?mode=ro", uri=True)
        base.row_factory = sqlite3.Row
        return base.execute(
            "SELECT * FROM samples WHERE source = 'profile' AND batch = 1 AND device = ? "
            "ORDER BY id", (device,)).fetchall()
    except sqlite3.Error as error:
        sys.exit(f"{state}/samples.db: {error}")


def read(place, device):
    """Kernel rows of (model, name, turn) and whole models' times."""
    try:
        rows = list(recorded(place)) if os.path.isfile(place) else stored(place, device)
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        sys.exit(f"{place}: no recording of CPU profiles: {error!r}")
    if not rows:
        sys.exit(f"{place}: no profile of {device} at batch 1")
    turns, kernels, models = collections.Counter(), {}, {}
    for row in rows:
        if row["whole_model"]:
            models[row["model"]] = row["latency_us"]
            continue
        key = (row["model"], row["name"])
        turns[key] += 1
        kernels[key + (turns[key],)] = row
    return kernels, models


def show(title, errors):
    print(f"{title:<32} {len(errors):>5} {100 * statistics.mean(errors):>7.1f} "
          f"{100 * statistics.median(errors):>9.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", help="state folder or recording")
    parser.add_argument("b", help="another, of the same models")
    parser.add_argument("--device", default="cpu-1c-q1")
    args = parser.parse_args()
    kernels_a, models_a = read(args.a, args.device)
    kernels_b, models_b = read(args.b, args.device)
    both = [key for key in kernels_a if key in kernels_b and kernels_a[key]["latency_us"] >= 20]
    if not both:
        sys.exit("no kernel stands in both")
    by_class = collections.defaultdict(list)
    for key in both:
        a, b = kernels_a[key], kernels_b[key]
        by_class[a["op_class"]].append(abs(b["latency_us"] / a["latency_us"] - 1))
    print(f"{'two profiles':<32} {'rows':>5} {'mean %':>7} {'median %':>9}")
    show("models", [abs(models_b[m] / models_a[m] - 1) for m in models_a if m in models_b])
    show("kernels", [e for errors in by_class.values() for e in errors])
    for name, errors in sorted(by_class.items()):
        show(f"  {name}", errors)
    alike, by_class = collections.defaultdict(list), collections.defaultdict(list)
    for row in kernels_a.values():
        if row["latency_us"] >= 20:
            alike[tuple(row[c] for c in ("model", "op", "inputs", "output", "window", "activation",
                                         "fused_add"))].append(row)
    for group in alike.values():
        for row in group if len(group) > 1 else []:
            others = [r["latency_us"] for r in group if r is not row]
            by_class[row["op_class"]].append(
                abs(statistics.median(others) / row["latency_us"] - 1))
    if by_class:
        print("\nthe same geometry again in the same model, first profile")
        show("kernels", [e for errors in by_class.values() for e in errors])
        for name, errors in sorted(by_class.items()):
            show(f"  {name}", errors)


if __name__ == "__main__":
    main()
