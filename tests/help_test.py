#!/usr/bin/env python3
"""Every command's --help fits a terminal of 80 columns and shows no figures of the parser's.

usage: help_test.py HASE
"""
import re
import subprocess
import sys


def main():
    hase, bad = sys.argv[1], 0

    def help_of(*words):
        nonlocal bad
        run = subprocess.run([hase, *words, "--help"], capture_output=True, text=True)
        for line in run.stdout.splitlines():
            if len(line) > 80 or "{false}" in line or "{true}" in line or re.search(r"\d{15}", line):
                bad += 1
                print(f"hase {' '.join(words)} --help: {line}")
        if run.returncode != 0 or run.stderr:
            bad += 1
            print(f"hase {' '.join(words)} --help: status {run.returncode}, {run.stderr.strip()}")
        return run.stdout

    def subcommands(text):
        _, _, rest = text.partition("Subcommands:\n")
        return re.findall(r"^  (\w+) ", rest, re.MULTILINE)

    commands = subcommands(help_of())
    if len(commands) < 15:
        sys.exit(f"only {len(commands)} commands found")
    for command in commands:
        for inner in subcommands(help_of(command)):
            help_of(command, inner)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
