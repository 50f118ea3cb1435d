#!/usr/bin/env python3
"""Writes the small ONNX models that tests run (committed beside this file, under 1 KiB each).

No ONNX package is needed: the few protobuf messages are written by hand (field numbers from
onnx.proto3). Weights are ConstantOfShape nodes, which ONNX Runtime folds while loading.

  tiny.onnx     [N,64] -> one 64x64 matmul + relu; microseconds
  steady.onnx   [N,256,256] -> ten 256x256 matmuls + relu; some milliseconds per input
  hungry.onnx   [N,1,1] -> expands to 256 MiB per input and sums it up; for memory limits
  fixed2.onnx   tiny with its batch fixed to 2
  broken.onnx   no model at all
"""
import pathlib
import struct

FLOAT, INT64 = 1, 7


def varint(value):
    out = b""
    while True:
        byte, value = value & 0x7F, value >> 7
        out += bytes([byte | (0x80 if value else 0)])
        if not value:
            return out


def field(number, payload):
    """A length-delimited field; text is encoded, integers become varint fields."""
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    if isinstance(payload, str):
        payload = payload.encode()
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def tensor(name, dims, kind, raw):
    return b"".join(field(1, d) for d in dims) + field(2, kind) + field(8, name) + field(9, raw)


def value_info(name, shape):
    dims = b"".join(field(1, field(1, d) if isinstance(d, int) else field(2, d)) for d in shape)
    return field(1, name) + field(2, field(1, field(1, FLOAT) + field(2, dims)))


def node(op, inputs, outputs, name, attributes=b""):
    return (b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs)
            + field(3, name) + field(4, op) + attributes)


def int64s(name, values):
    return tensor(name, [len(values)], INT64, struct.pack(f"<{len(values)}q", *values))


def constant_of_shape(output, shape_name, value):
    fill = tensor("", [1], FLOAT, struct.pack("<f", value))
    attribute = field(5, field(1, "value") + field(5, fill) + field(20, 4))
    return node("ConstantOfShape", [shape_name], [output], "make_" + output, attribute)


def model(nodes, initializers, inputs, outputs):
    graph = (b"".join(field(1, n) for n in nodes) + field(2, "main")
             + b"".join(field(5, t) for t in initializers)
             + b"".join(field(11, i) for i in inputs) + b"".join(field(12, o) for o in outputs))
    return field(1, 8) + field(2, "hase-tests") + field(7, graph) + field(8, field(2, 13))


def matmuls(size, count, lead):
    nodes = [constant_of_shape("w", "w_shape", 1.0 / size)]
    last = "x"
    for i in range(count):
        nodes.append(node("MatMul", [last, "w"], [f"m{i}"], f"matmul_{i}"))
        nodes.append(node("Relu", [f"m{i}"], [f"r{i}"], f"relu_{i}"))
        last = f"r{i}"
    return model(nodes, [int64s("w_shape", [size, size])], [value_info("x", lead + [size])],
                 [value_info(last, lead + [size])])


def hungry():
    nodes = [node("Expand", ["x", "wide"], ["big"], "expand"),
             node("Relu", ["big"], ["positive"], "relu"),
             node("ReduceSum", ["positive", "axes"], ["y"], "sum")]
    return model(nodes, [int64s("wide", [1, 8192, 8192]), int64s("axes", [1, 2])],
                 [value_info("x", ["N", 1, 1])], [value_info("y", ["N", 1, 1])])


here = pathlib.Path(__file__).parent
(here / "tiny.onnx").write_bytes(matmuls(64, 1, ["N"]))
(here / "fixed2.onnx").write_bytes(matmuls(64, 1, [2]))
(here / "steady.onnx").write_bytes(matmuls(256, 10, ["N", 256]))
(here / "hungry.onnx").write_bytes(hungry())
(here / "broken.onnx").write_bytes(b"this is no model\n")
