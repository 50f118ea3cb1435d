#!/usr/bin/env python3
"""Runs hase on every malformed input of this folder.

usage: run_bad_inputs.py HASE [NAME…]

NAME.expect holds three lines: the command line after `hase` ({} is the input file), the exit
status, and a pattern that stderr must match. stderr must be one line, so that a script can show it.
The input is NAME with any other ending (.onnx, .kernels.json, .yaml, .csv …); a command line without
{} needs none. hase runs in this folder, so that a command line may name other files of the tests.
"""
import pathlib
import re
import shlex
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
SECONDS = 60


def complaint(hase, expect):
    command, status, pattern = expect.read_text().splitlines()[:3]
    stem = expect.name.removesuffix(".expect")
    if "{}" in command:
        inputs = [p for p in sorted(FOLDER.iterdir())
                  if p.name.startswith(stem + ".") and p != expect]
        if not inputs:
            return "has no input file"
        command = command.replace("{}", shlex.quote(str(inputs[0])))
    try:
        run = subprocess.run([hase, *shlex.split(command)], capture_output=True, text=True,
                             errors="replace", timeout=SECONDS, cwd=FOLDER)
    except subprocess.TimeoutExpired:
        return f"no answer within {SECONDS} s"
    lines = run.stderr.splitlines()
    if run.returncode != int(status):
        return f"exit status {run.returncode}, expected {status}: {run.stderr.strip()[:300]}"
    if len(lines) != 1:
        return f"{len(lines)} lines on stderr, expected one: {run.stderr.strip()[:300]}"
    if not re.search(pattern, lines[0]):
        return f"stderr does not match /{pattern}/: {lines[0]}"
    return None


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    hase, names = str(pathlib.Path(sys.argv[1]).resolve()), set(sys.argv[2:])
    failed = ran = 0
    for expect in sorted(FOLDER.glob("*.expect")):
        if names and expect.name.removesuffix(".expect") not in names:
            continue
        ran += 1
        why = complaint(hase, expect)
        if why:
            failed += 1
            print(f"FAILED {expect.name}: {why}")
    print(f"{ran} malformed inputs, {failed} failed")
    sys.exit(1 if failed or not ran else 0)


if __name__ == "__main__":
    main()
