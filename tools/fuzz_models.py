#!/usr/bin/env python3
"""Flips bits in a small zoo model and inspects each mutant, for a number of seconds.

usage: tools/fuzz_models.py HASE [--seconds 60] [--seed 1] [--model mobilenet_v3_small]

Every mutant must end with status 0, 1 or 2 and, where it fails, one line on stderr: a crash of the
program or a hang is a failure, and its mutant is kept beside the report.
"""
import argparse
import pathlib
import random
import subprocess
import sys
import tempfile
import time

LIMIT_S = 150  # above the child's own alarm


def mutate(original, rng):
    data = bytearray(original)
    # Mostly in the last kilobytes and the first, where the structure is; weights fill the middle.
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        span = rng.choice([len(data), 65536, 65536])
        start = rng.choice([0, max(0, len(data) - span)])
        data[start + rng.randrange(min(span, len(data)))] ^= 1 << rng.randrange(8)
    if rng.random() < 0.1:
        del data[rng.randrange(len(data)):]
    return bytes(data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hase")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default="mobilenet_v3_small")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    counts = {0: 0, 1: 0, 2: 0}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "mutant.onnx"
        subprocess.run([options.hase, "zoo", "export", options.model, "-o", str(path)], check=True)
        original = path.read_bytes()
        end = time.monotonic() + options.seconds
        while time.monotonic() < end:
            path.write_bytes(mutate(original, rng))
            try:
                run = subprocess.run([options.hase, "inspect", str(path), "--json"],
                                     capture_output=True, timeout=LIMIT_S)
                status = run.returncode
            except subprocess.TimeoutExpired:
                status = "timeout"
            if status not in counts or (status != 0 and run.stderr.count(b"\n") != 1):
                kept = pathlib.Path(tempfile.gettempdir()) / "hase_failing_mutant.onnx"
                kept.write_bytes(path.read_bytes())
                sys.exit(f"status {status}; the mutant is {kept}")
            counts[status] += 1
    print(f"{sum(counts.values())} mutants: {counts[0]} accepted, "
          f"{counts[1] + counts[2]} refused, no crash, no hang")


if __name__ == "__main__":
    main()
