#!/usr/bin/env python3
"""Writes the malformed ONNX files of tests/bad and their .expect files.

Each .expect holds the command line ({} is the file), the exit status and a pattern that stderr must
match. ONNX is written by a protobuf encoder of a dozen lines, so no package is needed. Field
numbers are those of onnx.proto.
"""
import os
import pathlib
import random
import struct

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "bad"


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while True:
        byte, value = value & 0x7F, value >> 7
        out += bytes([byte | (0x80 if value else 0)])
        if not value:
            return out


def integer(field, value):
    return varint(field << 3) + varint(value)


def block(field, content):
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def value(name, dims, elem=1):
    shape = b""
    for dim in dims:
        shape += block(1, block(2, dim) if isinstance(dim, str) else integer(1, dim))
    return block(1, name) + block(2, block(1, integer(1, elem) + block(2, shape)))


def tensor(name, dims, data=None, elem=1, external=None):
    out = b"".join(integer(1, d) for d in dims) + integer(2, elem) + block(8, name)
    if external is not None:
        for key, text in external.items():
            out += block(13, block(1, key) + block(2, text))
        return out + integer(14, 1)
    if data is None:
        count = 1
        for d in dims:
            count *= d
        data = struct.pack("<f", 0.5) * count
    return out + block(9, data)


def attribute(name, number=None, numbers=None):
    if numbers is not None:
        return block(1, name) + b"".join(integer(8, v) for v in numbers) + integer(20, 7)
    return block(1, name) + integer(3, number) + integer(20, 2)


def node(op, inputs, outputs, name=None, attributes=(), domain=None):
    out = b"".join(block(1, i) for i in inputs) + b"".join(block(2, o) for o in outputs)
    out += block(3, name or op.lower()) + block(4, op)
    out += b"".join(block(5, a) for a in attributes)
    return out + (block(7, domain) if domain else b"")


def model(nodes, inputs, outputs, weights=(), opset=17, ir=8):
    graph = b"".join(block(1, n) for n in nodes) + block(2, "g")
    graph += b"".join(block(5, w) for w in weights)
    graph += b"".join(block(11, i) for i in inputs) + b"".join(block(12, o) for o in outputs)
    return integer(1, ir) + block(7, graph) + block(8, integer(2, opset))


X = value("x", ["N", 3, 8, 8])
Y = value("y", ["N", 4, 8, 8])
CONV = node("Conv", ["x", "w"], ["y"], "conv", [attribute("pads", numbers=[1, 1, 1, 1])])
W = tensor("w", [4, 3, 3, 3])
RELU = node("Relu", ["x"], ["y"])
INSPECT = "inspect {} --batch 1"


def good(**changes):
    parts = dict(nodes=[CONV], inputs=[X], outputs=[Y], weights=[W])
    return model(**(parts | changes))


def external(**entries):
    return good(weights=[tensor("w", [4, 3, 3, 3], external=entries)])


CASES = []


def case(name, content, status, pattern, command=INSPECT):
    CASES.append((name, content, command, status, pattern))


whole = good()
flipped = bytearray(whole)
flipped[2] ^= 0xFF  # the tag of the graph
case("empty", b"", 1, "the file is empty")
case("truncated", whole[: len(whole) // 2], 1, "truncated")
case("bit_flipped", bytes(flipped), 1, "bit_flipped.onnx: ")
case("text", b"this is a text file, not a model\n", 1, "not an ONNX model")
case("noise", random.Random(1).randbytes(4096), 1, "noise.onnx: ")
case("no_graph", integer(1, 8) + block(8, integer(2, 17)), 1, "holds no graph")
case("no_nodes", good(nodes=[]), 1, "holds no nodes")
case("no_inputs", model([node("Relu", ["w"], ["y"])], [], [Y], [W]), 1, "has no inputs")
case("no_outputs", good(outputs=[]), 1, "has no outputs")
case("opset_6", good(opset=6), 1, "opset 6 is not supported")
case("opset_99", good(opset=99), 1, "opset 99 is not supported")
case("unknown_operator", good(nodes=[node("Frobnicate", ["x"], ["y"])], weights=[]), 1, "Frobnicate")
case("unknown_domain", good(nodes=[node("Relu", ["x"], ["y"], domain="no.such")], weights=[]), 1, "no.such")
case("cycle", good(nodes=[node("Add", ["x", "b"], ["a"], "first"), node("Relu", ["a"], ["b"], "second"),
                          node("Relu", ["b"], ["y"], "third")], weights=[]), 1, "cycle through node '(first|second)'")
case("duplicate_output", good(nodes=[CONV, node("Relu", ["x"], ["y"], "again")]), 1, "node 'again' .*exists already")
case("missing_initialiser", good(weights=[]), 1, "node 'conv' .*reads 'w'")
case("initialiser_twice", good(weights=[W, W]), 1, "'w' is defined twice")
case("weight_too_short", good(weights=[tensor("w", [4, 3, 3, 3], b"\0" * 100)]), 1, "needs 432 bytes, the file holds 100")
case("weight_negative_dimension", good(weights=[tensor("w", [4, -3, 3, 3], b"\0" * 4)]), 1, "negative dimension -3")
case("weight_overflow", good(weights=[tensor("w", [1 << 40, 1 << 40], b"\0" * 4)]), 1, "overflows 64 bits")
case("input_negative_dimension", good(inputs=[value("x", ["N", -3, 8, 8])]), 1, "dimension -3")
case("input_zero_dimension", good(inputs=[value("x", ["N", 0, 8, 8])]), 1, "dimension 0")
case("shape_overflow", model([RELU], [value("x", ["N", 1 << 31, 1 << 31, 4])], [value("y", ["N", 1 << 31, 1 << 31, 4])]),
     1, "overflows? 64 bits")
case("batch_overflow", whole, 1, "overflow", "inspect {} --batch 4611686018427387904")
case("channel_mismatch", good(weights=[tensor("w", [4, 5, 3, 3])]), 1, "node .conv. .*channels")
case("open_dimension", model([RELU], [value("x", ["N", 3, "height", "width"])], [value("y", ["N", 3, "height", "width"])]),
     1, "left open: height, width")
case("unresolved", model([node("NonZero", ["x"], ["nz"], "where"), node("Transpose", ["nz"], ["y"], "turn")],
                         [X], [value("y", ["k", 4], 7)]), 1, "node 'where' .*cannot be resolved")
case("batch_0", whole, 2, "--batch 0", "inspect {} --batch 0")
case("batch_negative", whole, 2, "--batch -4", "inspect {} --batch -4")
case("fixed_batch", good(inputs=[value("x", [2, 3, 8, 8])], outputs=[value("y", [2, 4, 8, 8])]), 2,
     "input 'x' is fixed to batch 2, batch 8 was asked", "inspect {} --batch 8")
case("unknown_dim", whole, 2, "no such symbolic dimension", "inspect {} --batch 1 --dim height=4")
case("bad_dim", whole, 2, "--dim", "inspect {} --batch 1 --dim N")
case("bad_runtime", whole, 2, "--runtime", "inspect {} --batch 1 --runtime abacus")
case("external_missing", external(location="nowhere.bin"), 1, "'nowhere.bin' are missing")
case("external_outside", external(location="../data/cnn_reference.csv"), 1, "outside the model's folder")
case("external_absolute", external(location="/etc/passwd"), 1, "outside the model's folder")
case("external_symlink", external(location="outside_link"), 1, "outside the model's folder")
case("external_folder", external(location="."), 1, "are no file|outside")
case("external_beyond", external(location="external_beyond.expect", offset="100000", length="432"), 1, "reach to byte")
case("external_bad_size", external(location="external_bad_size.expect", offset="-5"), 1, "is no size")

KERNELS = """{
"format":"hase-kernels","version":1,"model":"small","params":432,"opset":17,
"inputs":[0],"input_names":["x"],"outputs":[2],
"tensors":["float32[N,3,8,8]","const float32[4,3,3,3]","float32[N,4,8,8]"],
"nodes":[
{"name":"conv","op":"Conv","in":[0,1],"out":[2],"window":[3,3,1,1,1,1,1,1,1,1,1]}]}
"""


def kernels(name, old, new, status, pattern, command=INSPECT):
    assert old in KERNELS, old
    CASES.append((name + ".kernels.json", KERNELS.replace(old, new, 1).encode(), command, status, pattern))


kernels("broken_json", '"nodes":[', '"nodes":[[', 1, r"broken_json.kernels.json:6:\d+: not valid JSON")
kernels("unknown_key", '"opset":17', '"opset":17,"colour":1', 1, "unknown key 'colour'")
kernels("wrong_version", '"version":1', '"version":9', 1, "version: is 9")
kernels("wrong_format", "hase-kernels", "other", 1, "format: is \"other\"")
kernels("negative_params", '"params":432', '"params":-1', 1, "params: is -1")
kernels("bad_tensor", "float32[N,4,8,8]", "float32[N,four]", 1, r"tensors\[2\]: 'float32\[N,four\]' is no tensor")
kernels("tensor_out_of_range", '"out":[2]', '"out":[7]', 1, "node 'conv' .*names tensor 7")
kernels("read_before_made", '"in":[0,1]', '"in":[2,1]', 1, "node 'conv' .*before any node makes it")
kernels("zero_stride", "[3,3,1,1,1", "[3,3,0,1,1", 1, r"nodes\[0\].window")
kernels("fixed_batch_contradicted", '"opset":17', '"opset":17,"fixed_batch":2', 2, "fixed to batch 2")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for name, content, command, status, pattern in CASES:
        stem = name.removesuffix(".kernels.json")
        (OUT / (name if stem != name else name + ".onnx")).write_bytes(content)
        (OUT / (stem + ".expect")).write_text(f"{command}\n{status}\n{pattern}\n")
    link = OUT / "outside_link"
    if not link.is_symlink():
        os.symlink("../data/cnn_reference.csv", link)
    folder = OUT / "directory.onnx"
    folder.mkdir(exist_ok=True)
    (folder / "keep").write_text("")
    (OUT / "directory.expect").write_text(f"{INSPECT}\n1\nis a directory\n")
    (OUT / "absent.expect").write_text("inspect no/such/file.onnx --batch 1\n1\nno/such/file.onnx: No such file\n")


if __name__ == "__main__":
    main()
