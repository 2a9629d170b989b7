#!/usr/bin/env python3
"""The same network by onnxruntime, on one thread."""
import pathlib
import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from policy import ACTION, LAYERS, OBSERVATION, print_row


def network():
    rng = np.random.default_rng(1)
    nodes, weights, x, inputs = [], [], "observation", OBSERVATION

    def weight(name, *shape):
        weights.append(numpy_helper.from_array((rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32), name))
        return name

    def node(kind, name, *of, **attributes):
        nodes.append(helper.make_node(kind, of, [name], **attributes))
        return name

    for i, outputs in enumerate((*LAYERS, ACTION)):
        x = node("Gemm", f"x{i}", x, weight(f"w{i}", inputs, outputs), weight(f"b{i}", outputs))
        if i == 0:
            x = node("LayerNormalization", "normed", x, weight("gain", outputs), weight("offset", outputs))
        last = i == len(LAYERS)
        x = node("Tanh" if i == 0 or last else "Elu", "action" if last else f"y{i}", x)
        inputs = outputs
    graph = helper.make_graph(
        nodes, "policy", [helper.make_tensor_value_info("observation", TensorProto.FLOAT, [1, OBSERVATION])],
        [helper.make_tensor_value_info("action", TensorProto.FLOAT, [1, ACTION])], weights)  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


if __name__ == "__main__":
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(network().SerializeToString(), options, providers=["CPUExecutionProvider"])
    print_row(lambda observation: session.run(None, {"observation": observation[None]})[0][0], onnxruntime.__version__)
