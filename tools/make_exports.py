#!/usr/bin/env python3
"""Makes tests/exports: networks of torchvision as torch.onnx writes them, weights made constant.

  python3 -m venv V && V/bin/pip install torch==2.4.0 torchvision==0.19.0 onnx==1.16.2 'numpy<2'
  V/bin/python tools/make_exports.py [NAME…]

Every float weight of 64 elements or more becomes 0.01 throughout, so that the graph, which is what
lowering reads, compresses to a few kilobytes. exports.csv takes parameters and multiply-adds from
the metadata that torchvision publishes with its weights, not from anything HASE computed.
"""
import csv
import lzma
import pathlib
import sys
import tempfile

import numpy
import onnx
import torch
import torchvision

NAMES = ["efficientnet_b0", "googlenet", "mnasnet0_5", "mobilenet_v3_small", "regnet_y_400mf", "resnet18",
         "shufflenet_v2_x0_5", "squeezenet1_1", "swin_t"]
# Where ONNX Runtime fuses more than our rules do (docs/limits.md, "Models").
DISAGREE = {"shufflenet_v2_x0_5", "swin_t"}
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "exports"


def export(name, path):
    torch.manual_seed(0)
    extra = {"init_weights": False} if name == "googlenet" else {}
    network = getattr(torchvision.models, name)(weights=None, **extra).eval()
    torch.onnx.export(network, torch.zeros(1, 3, 224, 224), path, opset_version=17, input_names=["input"],
                      output_names=["logits"], dynamic_axes={"input": {0: "batch"}, "logits": {0: "batch"}})


def flatten_weights(model):
    for tensor in model.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor)
        if tensor.data_type == onnx.TensorProto.FLOAT and values.size >= 64:
            tensor.CopyFrom(onnx.numpy_helper.from_array(numpy.full_like(values, 0.01), tensor.name))
    for node in model.graph.node:
        node.doc_string = ""


def main():
    FOLDER.mkdir(exist_ok=True)
    rows = []
    for name in sys.argv[1:] or NAMES:
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/model.onnx"
            export(name, path)
            model = onnx.load(path)
        flatten_weights(model)
        packed = lzma.compress(model.SerializeToString(), preset=9)
        (FOLDER / f"{name}.onnx.xz").write_bytes(packed)
        meta = torchvision.models.get_model_weights(name).DEFAULT.meta
        rows.append({"model": name, "params": meta["num_params"], "gmacs": meta["_ops"],
                     "x_kernels_agree": int(name not in DISAGREE)})
        print(f"{name}: {len(packed)} bytes")
    with open(FOLDER / "exports.csv", "w", newline="") as out:
        table = csv.DictWriter(out, ["model", "params", "gmacs", "x_kernels_agree"], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
