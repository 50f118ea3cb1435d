#!/usr/bin/env python3
"""Rooms in a line: a file may include only its own room and rooms above it.

Also demands that every room appears in docs/architecture.md, and that foreign headers stay where
they belong. Prints each breach as file:line and exits 1.
"""
import pathlib
import re
import sys

ROOMS = ["base", "model", "cluster", "latency", "workload", "placement", "world", "execution",
         "measurement", "apps"]
# world is judged by the predictor and must not know it; so it sees fewer rooms than its place gives.
ALLOWED = {room: set(ROOMS[: i + 1]) for i, room in enumerate(ROOMS)}
ALLOWED["world"] = {"base", "model", "cluster", "workload", "world"}
FOREIGN = {"onnxruntime": ("src/model/ort/",), "xgboost": ("src/latency/",)}
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]')

root = pathlib.Path(__file__).resolve().parent.parent
bad = 0
for path in sorted((root / "src").rglob("*")):
    if path.suffix not in {".h", ".cc"}:
        continue
    name = path.relative_to(root).as_posix()
    room = name.split("/")[1]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match.group(1)
        other = target.split("/")[0]
        if other in ROOMS and "/" in target and other not in ALLOWED[room]:
            print(f"{name}:{number}: room '{room}' must not include '{target}'")
            bad += 1
        for word, homes in FOREIGN.items():
            if word in target and not name.startswith(homes):
                print(f"{name}:{number}: {target} may be included only under {', '.join(homes)}")
                bad += 1
page = root / "docs/architecture.md"
text = page.read_text() if page.exists() else ""
for room in ROOMS:
    if any((root / "src" / room).glob("*.*")) and f"src/{room}" not in text:
        print(f"docs/architecture.md: room src/{room} is not described")
        bad += 1
sys.exit(1 if bad else 0)
