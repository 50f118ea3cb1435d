#!/usr/bin/env python3
"""Models that other tools exported, through `hase inspect`.

  check_real_exports.py [--hase build/release/hase]

Fetches, by name from PyPI, a package that ships small ONNX files made by Paddle2ONNX (text detection,
and recognition; dynamic height and width, hard-swish, attention), into a
temporary folder, and lowers each with its dynamic dimensions given. Exits 1 if one is refused, or
has kernels of class `other`; 77 (skipped) if the package cannot be fetched.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "rapidocr-onnxruntime==1.4.4"
DIMENSIONS = {
    "ch_PP-OCRv4_det_infer.onnx": ["p2o.DynamicDimension.1=640", "p2o.DynamicDimension.2=640"],
    "ch_PP-OCRv4_rec_infer.onnx": ["?=48", "p2o.DynamicDimension.1=320"],
}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--hase", default="build/release/hase")
args = parser.parse_args()

bad = 0
with tempfile.TemporaryDirectory() as folder:
    fetched = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, PACKAGE])
    if fetched.returncode != 0:
        print(f"skipped: {PACKAGE} cannot be fetched")
        sys.exit(77)
    wheel = zipfile.ZipFile(next(pathlib.Path(folder).glob("*.whl")))
    for file, dimensions in DIMENSIONS.items():
        path = wheel.extract(next(n for n in wheel.namelist() if n.endswith(file)), folder)
        words = [args.hase, "inspect", path, "--batch", "2", "--json"]
        for dimension in dimensions:
            words += ["--dim", dimension]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            print(f"{file}: status {done.returncode}: {done.stderr.strip()}")
            bad += 1
            continue
        out = json.loads(done.stdout)
        other = [k["name"] for k in out["kernels"] if k["op_class"] == "other"]
        print(f"{file}: {len(out['kernels'])} kernels, {out['total_flops'] / 1e9:.2f} GFLOP, {len(other)} other")
        bad += bool(other)
sys.exit(1 if bad else 0)
