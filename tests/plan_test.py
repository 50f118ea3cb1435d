#!/usr/bin/env python3
"""hase plan from files to page: keys, refusals by name with status 3, the report in Chromium.

  plan_test.py HASE_BINARY        (the browser's part is skipped without Chromium)
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

hase = pathlib.Path(sys.argv[1]).resolve()
inss = pathlib.Path(__file__).parent / "data" / "inss"
problems = []


def run(*args, status):
    done = subprocess.run([hase, "plan", *map(str, args)], capture_output=True, text=True, timeout=300)
    if done.returncode != status:
        problems.append(f"{args}: status {done.returncode} instead of {status}: {done.stderr[-400:]}")
    return done


def expect(condition, what):
    if not condition:
        problems.append(what)


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    page = folder / "plan.html"
    cluster = inss / "cluster_8_of_4.yaml"
    done = run("--cluster", cluster, "--services", inss / "services_light.yaml", "--policy",
               "inss,dedicated", "--objective", "min-cost", "--json", "--report", page, status=0)
    plan = json.loads(done.stdout or "{}")
    expect([p["name"] for p in plan.get("policies", [])] == ["inss", "dedicated"], "two policies")
    for policy in plan.get("policies", []):
        for key in ["feasible", "devices_used", "cost_per_hour", "throughput_rps", "bound_fraction",
                    "slo_violation_fraction", "plan_ms"]:
            expect(key in policy, f"{policy['name']} lacks {key}")
        sold = {}
        for service in policy["services"]:
            expect(service["instances"], f"{policy['name']}: {service['name']} has no instance")
            for i in service["instances"]:
                if i["mode"] == "mps":
                    sold[i["device"]] = sold.get(i["device"], 0) + i["share"]
                expect(set(i["latency_ms"]) == {"p50", "p99"}, "latency_ms")
                expect(i["why"]["binds"] and i["why"]["share"] and i["why"]["device"], "why")
        expect(all(s < 1.0001 for s in sold.values()), f"{policy['name']} oversells: {sold}")

    def services(line):
        path = folder / "s.yaml"
        path.write_text("services:\n  - {name: ok, model: resnet18, rate_rps: 5, slo_ms: 200}\n  - {"
                        + line + "}\n")
        return path

    for line, said in [
            ("name: hasty, model: vgg19, rate_rps: 1, slo_ms: 0.5", ["hasty", "0.5 ms", "slo_ms:"]),
            ("name: none, model: vgg19, rate_rps: 0, slo_ms: 100", ["none", "rate_rps: a number above 0"]),
            ("name: less, model: vgg19, rate_rps: -2, slo_ms: 100", ["less", "-2", "nearest feasible"]),
            ("name: what, model: vgg19, rate_rps: .nan, slo_ms: 100", ["what", "nearest feasible"])]:
        err = run("--cluster", cluster, "--services", services(line), status=3).stderr
        for text in said:
            expect(text in err, f"'{text}' is not said of {line}: {err}")
    small = folder / "c.yaml"
    small.write_text("nodes:\n  - name: a\n    devices: [{type: T4, count: 1, modes: [mps]}]\n")
    err = run("--cluster", small, "--services", inss / "services_heavy.yaml", "--objective", "min-cost",
              status=3).stderr
    expect("rate_rps:" in err, "too much for the devices: the rates that would fit are said")
    run("--cluster", cluster, "--services", folder / "absent.yaml", status=1)
    # What a refusal names as feasible is.
    done = run("--cluster", cluster, "--services",
               services("name: hasty, model: vgg19, rate_rps: 1, slo_ms: 0.5"), status=3)
    named = re.search(r"slo_ms: ([0-9.]+)", done.stdout + done.stderr)
    expect(named, "the refusal names no objective")
    if named:
        run("--cluster", cluster, "--services",
            services(f"name: hasty, model: vgg19, rate_rps: 1, slo_ms: {named[1]}"),
            "--objective", "given-rates", status=0)
    run("--cluster", cluster, "--services", services("name: a, model: resnet18, rate_rps: x, slo_ms: 9"),
        status=1)
    run("--cluster", cluster, "--services", inss / "services_light.yaml", "--policy", "nobody", status=2)

    text = page.read_text() if page.exists() else ""
    expect("src=\"http" not in text and "href=\"http" not in text, "the page loads something")
    browser = next((b for b in map(shutil.which, ["chromium", "chromium-browser", "google-chrome"]) if b),
                   None)
    if browser and text:
        done = subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0",
             f"--user-data-dir={folder}/profile", "--virtual-time-budget=5000", "--window-size=1300,1800",
             "--dump-dom", f"file://{page}"], capture_output=True, text=True, timeout=120)
        dom = done.stdout
        problems += [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        expect('data-ready="yes"' in dom, "the page's script did not reach its end")
        for part in ["shares", "latency"]:
            expect("<svg" in dom[dom.find(f'id="{part}"'):][:4000], f"no chart in #{part}")
        shown = re.sub(r'<script type="application/json".*?</script>', "", dom, flags=re.S)
        for text in ["mobilenet_v2", "of the bound", "would take", "objective"]:
            expect(text in shown, f"'{text}' is not shown")

print("\n".join(problems) or "plan: keys, refusals and page as documented")
sys.exit(1 if problems else 0)
