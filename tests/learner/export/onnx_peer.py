"""onnxruntime's side of onnx_runtime_test.cpp: python onnx_peer.py MODEL EXAMPLES checks the model, runs it on the
examples' inputs and prints what differs from their outputs by more than 1e-5. Exit status 77: something is missing."""
import sys

try:
    import numpy as np
    import onnx
    import onnxruntime
    from safetensors.numpy import load_file
except ModuleNotFoundError as missing:
    print(f"{missing}: the Python environment is older than tools/python/test.txt")
    sys.exit(77)

model, examples = sys.argv[1], load_file(sys.argv[2])
onnx.checker.check_model(model, full_check=True)
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
failed = False
batch = len(examples[f"input/{session.get_inputs()[0].name}"])
for rows in (batch, 1):  # all of them, and another batch
    feed = {info.name: examples[f"input/{info.name}"][:rows] for info in session.get_inputs()}
    for info, got in zip(session.get_outputs(), session.run(None, feed)):
        expected = examples[f"output/{info.name}"]
        expected = expected[: len(expected) * rows // batch]  # a row may become several
        if got.shape != expected.shape:
            print(f"{info.name}: shape {got.shape}, expected {expected.shape}")
            failed = True
        elif not np.allclose(got, expected, rtol=1e-5, atol=1e-5):
            print(f"{info.name}: differs by {abs(got - expected).max()}")
            failed = True
sys.exit(failed)
