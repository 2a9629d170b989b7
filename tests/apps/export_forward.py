"""Opens an exported safetensors file with PyTorch or NumPy, computes the network from it by hand and prints how far that
is from the examples, as a share of their largest value: python export_forward.py torch|numpy MODEL EXPORT EXAMPLES.
Networks with convolutions only with PyTorch."""

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


def convolve(t, x, name, stride=1):
    """x and the result: [rows, channels, height, width]; sizes stay, but for the stride."""
    weight = t[f"{name}/weight"].permute(3, 2, 0, 1)
    return xp.conv2d(x, weight, t.get(f"{name}/bias"), stride=stride, padding=weight.shape[-1] // 2)


def image_norm(t, x, group, name, label=None):
    """Statistics as above; with a label gain and offset are those of its class."""
    across = lambda columns: columns.reshape(-1, columns.shape[-1], 1, 1)  # noqa: E731
    statistics = f"state/{group.removesuffix('.average')}/{name}"
    x = (x - across(t[f"{statistics}/mean"])) / xp.sqrt(across(t[f"{statistics}/variance"]) + 1e-5)
    gain, offset = t[f"{group}/{name}/gain"], t[f"{group}/{name}/offset"]
    if label is not None:
        gain, offset = gain[label.long()], offset[label.long()]
    return x * across(gain) + across(offset)


def doubled(x):
    return x.repeat_interleave(2, 2).repeat_interleave(2, 3)


def residual_generator(t, noise, label):
    group = "generator.average"
    norm = lambda x, name: relu(image_norm(t, x, group, name, label))  # noqa: E731
    x = noise @ t[f"{group}/input/weight"] + t[f"{group}/input/bias"]
    width = t[f"{group}/norm/gain"].shape[-1]  # small images: the same in all blocks
    side = round((x.shape[1] // width) ** 0.5)
    x = x.reshape(-1, side, side, width).permute(0, 3, 1, 2)
    block = 0
    while f"{group}/block{block}/conv0/weight" in t:
        name = f"block{block}"
        h = convolve(t, doubled(norm(x, f"{name}/norm0")), f"{group}/{name}/conv0")
        h = convolve(t, norm(h, f"{name}/norm1"), f"{group}/{name}/conv1")
        x = h + doubled(convolve(t, x, f"{group}/{name}/shortcut"))
        block += 1
    return xp.tanh(convolve(t, norm(x, "norm"), f"{group}/output")).permute(0, 2, 3, 1)


def generator(t, noise, label=None):
    if "generator.average/input/weight" in t:
        return residual_generator(t, noise, label)
    return batch_normed_mlp(t, noise, "generator.average", xp.tanh)


def cifar_resnet(t, image):
    """He et al. 2015, section 4.2: shortcuts without parameters."""
    group = "resnet.average"
    layer = lambda x, name, stride=1: image_norm(t, convolve(t, x, f"{group}/{name}", stride), group, name)  # noqa: E731
    x = relu(layer(image.permute(0, 3, 1, 2), "stem"))
    blocks = sorted({tuple(n.split("/")[1:3]) for n in t if n.startswith(f"{group}/stage")})
    for stage, block in blocks:
        stride = 2 if stage != "stage1" and block == "block1" else 1
        h = relu(layer(x, f"{stage}/{block}/conv1", stride))
        h = layer(h, f"{stage}/{block}/conv2")
        kept = x[:, :, ::stride, ::stride]
        more = xp.zeros(kept.shape[0], h.shape[1] - kept.shape[1], *kept.shape[2:])
        x = relu(h + xp.cat([kept, more], 1))
    return x.mean((2, 3)) @ t[f"{group}/head/weight"] + t[f"{group}/head/bias"]


# What each network reads and makes.
MODELS = {
    "d4pg": (["observation"], "action", policy),
    "sngan": (["noise", "label"], "image", generator),
    "classifier": (["image"], "logits", lambda t, x: batch_normed_mlp(t, x, "classifier.average", lambda y: y)),
    "resnet": (["image"], "logits", cifar_resnet),
}

if __name__ == "__main__":
    kind, model, export, examples = sys.argv[1:]
    xp = __import__(kind)
    network, given = load(kind, export), load(kind, examples)
    reads, made, forward = MODELS[model]
    inputs = [given[f"input/{name}"] for name in reads if f"input/{name}" in given]
    expected, got = given[f"output/{made}"], forward(network, *inputs)
    print(float(abs(got.reshape(expected.shape) - expected).max() / abs(expected).max()))
