"""Opens an exported safetensors file with PyTorch or NumPy, computes the network from it by hand and prints how far that
is from the examples: python export_forward.py torch|numpy d4pg|sngan|classifier EXPORT EXAMPLES"""

import json
import sys


def load(kind, path):
    """PyTorch's side reads the format itself: its environment needs no further package for it."""
    if kind == "numpy":
        from safetensors.numpy import load_file

        return load_file(path)
    with open(path, "rb") as file:
        data = bytearray(file.read())
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    dtypes = {"F32": xp.float32, "I32": xp.int32}
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        part = data[8 + size + begin : 8 + size + end]
        tensors[name] = xp.frombuffer(part, dtype=dtypes[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def relu(x):
    return xp.where(x > 0, x, xp.zeros_like(x))


def elu(x):
    return xp.where(x > 0, x, xp.expm1(x))


def layers(t, group):
    """How many layers a group has."""
    return sum(name.startswith(f"{group}/layer") and name.endswith("/weight") for name in t)


def batch_norm(t, x, group, layer):
    """Statistics are those of the model that is trained, also beside its moving average."""
    statistics = f"state/{group.removesuffix('.average')}/layer{layer}"
    x = (x - t[f"{statistics}/mean"]) / xp.sqrt(t[f"{statistics}/variance"] + 1e-5)
    return x * t[f"{group}/layer{layer}/gain"] + t[f"{group}/layer{layer}/offset"]


def policy(t, x):
    x = x @ t["policy/layer0/weight"] + t["policy/layer0/bias"]
    x = x - x.mean(-1)[:, None]
    x = x / xp.sqrt((x * x).mean(-1)[:, None] + 1e-5)
    x = xp.tanh(x * t["policy/norm/gain"] + t["policy/norm/offset"])
    count = layers(t, "policy")
    for i in range(1, count):
        x = x @ t[f"policy/layer{i}/weight"] + t[f"policy/layer{i}/bias"]
        x = elu(x) if i + 1 < count else xp.tanh(x)
    return x


def batch_normed_mlp(t, x, group, head):
    count = layers(t, group)
    for i in range(count - 1):
        x = x @ t[f"{group}/layer{i}/weight"]
        if f"{group}/layer{i}/gain" in t:
            x = batch_norm(t, x, group, i)
        else:
            x = x + t[f"{group}/layer{i}/bias"]
        x = relu(x)
    return head(x @ t[f"{group}/layer{count - 1}/weight"] + t[f"{group}/layer{count - 1}/bias"])


MODELS = {
    "d4pg": ("observation", "action", policy),
    "sngan": ("noise", "image", lambda t, x: batch_normed_mlp(t, x, "generator.average", xp.tanh)),
    "classifier": ("image", "logits", lambda t, x: batch_normed_mlp(t, x, "classifier.average", lambda y: y)),
}

if __name__ == "__main__":
    kind, model, export, examples = sys.argv[1:]
    xp = __import__(kind)
    network, given = load(kind, export), load(kind, examples)
    read, made, forward = MODELS[model]
    expected, got = given[f"output/{made}"], forward(network, given[f"input/{read}"])
    got = got.reshape(expected.shape)
    print(float(abs(got - expected).max()))
