#!/usr/bin/env python3
"""Rewrites what the scenario tests expect from what they now get. Review the diff: a change here is
a change of behaviour.

usage: tools/update_expected.py [build-folder]     (default build/release)
"""
import os
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else root / "build/release")
binary = next(build.rglob("scenarios_test"), None)
if binary is None:
    sys.exit(f"{build}: no scenarios_test; build it first")
run = subprocess.run([binary], env={**os.environ, "HASE_UPDATE_EXPECTED": "1"}, cwd=root,
                     capture_output=True, text=True, check=False)
changed = 0
for line in run.stdout.splitlines():
    if not line.startswith("ACTUAL "):
        continue
    _, name, key, value = line.split(" ", 3)
    path = root / "tests/scenarios" / f"{name}.yaml"
    text = path.read_text()
    head, mark, tail = text.rpartition("\nexpect:")
    new = re.sub(rf"(\b{key}: )[-0-9.e+]+", rf"\g<1>{value}", tail, count=1)
    if new != tail:
        path.write_text(head + mark + new)
        changed += 1
print(f"{changed} values rewritten; event logs are rewritten in place. See git diff tests/scenarios.")
