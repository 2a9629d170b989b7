"""The Python package's side of safetensors_test.cpp: checks the file OURS, then writes the file THEIRS."""
import sys

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

ours, theirs = sys.argv[1:]
raw = bytes(range(64))
expected = {  # name: dtype in the file, shape, bytes
    "policy/weights": ("F32", [2, 3], raw[:24]),
    "step": ("I64", [], raw[8:16]),
    "nothing": ("F64", [0, 4], b""),
    "half": ("BF16", [5], raw[1:11]),
    "../../etc/passwd": ("U8", [3], raw[:3]),
    "double": ("F64", [1, 1, 2], raw[:16]),
    "small": ("I32", [1], raw[4:8]),
}
with safe_open(ours, framework="numpy") as file:
    assert file.metadata() == {"run_id": "r1"}, file.metadata()
    assert sorted(file.keys()) == sorted(expected), file.keys()
    for name, (dtype, shape, data) in expected.items():
        part = file.get_slice(name)
        assert (part.get_dtype(), part.get_shape()) == (dtype, shape), (name, part.get_dtype(), part.get_shape())
        if dtype != "BF16":  # NumPy has no bfloat16
            assert file.get_tensor(name).tobytes() == data, name

save_file({"ramp": np.arange(4, dtype=np.float32).reshape(2, 2), "byte": np.array([7], dtype=np.uint8)}, theirs,
          metadata={"made_by": "python"})
