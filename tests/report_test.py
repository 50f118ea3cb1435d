#!/usr/bin/env python3
"""Opens a report in headless Chromium: no console error, and every part of it is really there.

  report_test.py REPORT_TEST_BINARY     (exit 77 = skipped: no Chromium)
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

browser = next((b for b in map(shutil.which, ["chromium", "chromium-browser", "google-chrome"]) if b), None)
if not browser:
    print("skipped: no Chromium (tools/setup.sh --browser installs it)")
    sys.exit(77)

with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.argv[1], "--gtest_filter=ReportTest.WritesAFile"], check=True,
                   env=dict(os.environ, HASE_REPORT_DIR=folder), stdout=subprocess.DEVNULL)
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0",
         f"--user-data-dir={folder}/profile", "--virtual-time-budget=5000", "--window-size=1300,1800",
         "--dump-dom", f"file://{folder}/sample.html"],
        capture_output=True, text=True, timeout=120)

dom, problems = done.stdout, []
for line in done.stderr.splitlines():
    if "CONSOLE" in line:
        problems.append("console: " + line)
if 'data-ready="yes"' not in dom:
    problems.append("the page's script did not reach its end")
for part in ["makespan-chart", "gantts", "scatter", "cdf", "pareto", "queue", "used", "reliability"]:
    section = dom[dom.find(f'id="{part}"'):]
    if "<svg" not in section[:4000]:
        problems.append(f"no chart in #{part}")
for text in ["lower bound", "local/1", "mobilenet_v2", "earliest predicted finish", "cgroup-v1", "10 seeds", "0.800 ± 0.020"]:
    if text not in re.sub(r'<script type="application/json".*?</script>', "", dom, flags=re.S):
        problems.append(f"'{text}' is not shown")
if len(re.findall(r"<tr class=\"decision\"", dom)) < 1:
    problems.append("no decision is listed")
print("\n".join(problems) or "report: all parts there, console clean")
sys.exit(1 if problems else 0)
