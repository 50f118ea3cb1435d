#!/usr/bin/env python3
"""Writes the service mixes and clusters of this folder. Fixed before the planner existed.

Rule (no predictor and no planner of HASE has a part in it):
  work(m)   = 2 * gmacs(m) / (0.4 * 8.1 TFLOP/s)      seconds of a T4 per request: published
              multiply-adds (the source table is named in README.md) at 40 % of the T4's fp32 peak
  solo(m)   = 3 ms + work(m)                          3 ms: one framework call, small kernels
  slo(m)    = k * solo(m), rounded up to 1 ms         k = 10; k = 4 in the tight mix
  rate(m)   = load / work(m), three digits            load: T4 equivalents given to the service
Percentile 0.99, largest batch 32, everywhere.
"""
import math
import pathlib

GMACS = dict(
    resnet18=1.814, resnet34=3.664, resnet50=4.089, resnet101=7.801, resnet152=11.514,
    vgg11=7.609, vgg16=15.470, vgg19=19.632, densenet121=2.834, densenet169=3.360,
    densenet201=4.291, mobilenet_v1=0.569, mobilenet_v2=0.301, mobilenet_v3_small=0.057,
    mobilenet_v3_large=0.217, yolov3_tiny=6.65, yolov5n=2.25, yolov5s=8.25, yolov5m=24.5,
    yolov8n=4.35, yolov8s=14.3, yolov8m=39.45)

# mix -> (why, k, [(model, load)])
MIXES = {
    "light": ("a little of four families", 10, [
        ("resnet50", 0.3), ("mobilenet_v2", 0.1), ("densenet121", 0.2), ("yolov5n", 0.2)]),
    "heavy": ("few services, large models, high load", 10, [
        ("resnet152", 1.5), ("vgg19", 1.5), ("yolov8m", 2.0), ("yolov5m", 1.5), ("densenet201", 0.8)]),
    "skewed": ("one service carries most of the load", 10, [
        ("resnet50", 4.0), ("mobilenet_v1", 0.1), ("vgg11", 0.3), ("yolov5s", 0.4), ("resnet18", 0.2),
        ("densenet169", 0.2)]),
    "many_small": ("twenty services, each far below one device", 10, [
        (m, 0.12) for m in ("mobilenet_v1", "mobilenet_v2", "mobilenet_v3_large", "resnet18",
                            "resnet34", "resnet50", "densenet121", "yolov5n", "yolov8n",
                            "yolov3_tiny")] * 2),
    "tight": ("objectives at four times the solo latency", 4, [
        ("resnet50", 0.8), ("resnet101", 0.8), ("vgg16", 0.8), ("yolov5s", 0.8), ("yolov8s", 0.8),
        ("resnet34", 0.4)]),
    "mixed": ("all five families at middling load", 10, [
        ("resnet50", 0.8), ("resnet101", 0.8), ("vgg16", 0.8), ("densenet121", 0.5),
        ("densenet201", 0.5), ("mobilenet_v2", 0.2), ("mobilenet_v3_large", 0.15),
        ("yolov5s", 0.8), ("yolov8n", 0.5), ("yolov3_tiny", 0.5)]),
}

def work_s(model):
    return 2 * GMACS[model] * 1e9 / (0.4 * 8.1e12)

def digits(value):
    return float(f"{value:.3g}")

def service(name, model, load, k):
    slo = math.ceil(k * (3 + 1000 * work_s(model)))
    return (f"  - {{name: {name}, model: {model}, rate_rps: {digits(load / work_s(model)):g}, "
            f"slo_ms: {slo}, slo_percentile: 0.99, max_batch: 32}}")

here = pathlib.Path(__file__).parent
for mix, (why, k, rows) in MIXES.items():
    lines = [f"# {mix}: {why}. Written by make_mixes.py; the rule stands there.", "services:"]
    seen = {}
    for model, load in rows:
        seen[model] = seen.get(model, 0) + 1
        name = f"{model}-{seen[model]}" if seen[model] > 1 else model
        lines.append(service(name, model, load, k))
    (here / f"services_{mix}.yaml").write_text("\n".join(lines) + "\n")

# Prices: on-demand, per card, of the smallest instance that carries it (AWS us-east-1, 2024:
# g4dn.xlarge, g6.xlarge, p3.2xlarge, p4d.24xlarge / 8).
PRICE = {"T4": 0.526, "L4": 0.805, "V100-SXM2-16GB": 3.06, "A100-SXM4-40GB": 4.10}

def cluster(name, why, nodes):
    lines = [f"# {name}: {why}. Written by make_mixes.py.", "nodes:"]
    for node, (kind, count) in nodes.items():
        modes = "[mps, mig]" if kind.startswith("A100") else "[mps]"
        lines.append(f"  - name: {node}\n    devices:\n      - {{type: {kind}, count: {count}, "
                     f"modes: {modes}, price_per_hour: {PRICE[kind]}}}")
    (here / f"cluster_{name}.yaml").write_text("\n".join(lines) + "\n")

cluster("4_equal", "four equal cards", {"a": ("A100-SXM4-40GB", 4)})
cluster("8_of_4", "eight cards of four types", {
    "a": ("A100-SXM4-40GB", 2), "b": ("V100-SXM2-16GB", 2), "c": ("L4", 2), "d": ("T4", 2)})
