#!/usr/bin/env python3
"""Writes golden/d4pg_step.safetensors: three whole D4PG steps in PyTorch, in float64 and in float32.

The C++ test replays them through algorithms/d4pg and compares losses, gradients, parameters, targets and Adam's moments.
The networks, losses, clipping and update order are Acme's (acme/agents/jax/d4pg/learning.py, rlax dpg_loss with a row's
dq/da clipped to L2 norm 1); as in acme/tf/losses/dpg.py the policy loss sums over action dimensions. Limits are
chosen so that every clip is active in some rows or steps and inactive in others; the script fails if that is not so.

Usage: make_d4pg_golden.py [OUTPUT]   (environment: tools/python_env.sh torch)
"""
import json
import pathlib
import struct
import sys

import torch

OBS, ACT, BATCH, ATOMS, STEPS = 5, 2, 8, 11, 3
POLICY_SIZES, CRITIC_SIZES = (16, 12), (16, 16, 12)
V_MIN, V_MAX = -6.0, 6.0
LEARNING_RATE, BETA1, BETA2, EPSILON, LAYER_NORM_EPSILON = 3e-3, 0.9, 0.999, 1e-8, 1e-5
ACTION_LOW, ACTION_HIGH = (-1.0, -0.5), (1.0, 2.0)
DQDA_LIMIT, NORM_LIMIT, TARGET_PERIOD = 0.4, 0.37, 2


def draw_network(sizes, inputs, outputs, generator):
    """Parameters by name in layout order; weights are [in, out], as Troupe stores them."""
    parameters, width = {}, inputs
    for index, size in enumerate([*sizes, outputs]):
        parameters[f"layer{index}/weight"] = torch.randn(width, size, generator=generator, dtype=torch.float64) / width**0.5
        parameters[f"layer{index}/bias"] = 0.1 * torch.randn(size, generator=generator, dtype=torch.float64)
        if index == 0:
            parameters["norm/gain"] = 1 + 0.1 * torch.randn(size, generator=generator, dtype=torch.float64)
            parameters["norm/offset"] = 0.1 * torch.randn(size, generator=generator, dtype=torch.float64)
        width = size
    return parameters


def mlp(parameters, x):
    """Acme's LayerNormMLP with a final linear layer: linear, layer norm, tanh, then ELU layers, then linear."""
    layers = sum(name.endswith("/weight") for name in parameters)
    for index in range(layers):
        x = x @ parameters[f"layer{index}/weight"] + parameters[f"layer{index}/bias"]
        if index == 0:
            x = torch.nn.functional.layer_norm(
                x, x.shape[-1:], parameters["norm/gain"], parameters["norm/offset"], LAYER_NORM_EPSILON)
            x = torch.tanh(x)
        elif index + 1 < layers:
            x = torch.nn.functional.elu(x)
    return x


def act(parameters, observation):
    low, high = observation.new_tensor(ACTION_LOW), observation.new_tensor(ACTION_HIGH)
    return low + 0.5 * (torch.tanh(mlp(parameters, observation)) + 1) * (high - low)


def criticise(parameters, observation, action):
    return mlp(parameters, torch.cat([observation, action], -1))


def project(probabilities, reward, discount, atoms):
    """Cramer projection of the shifted distribution onto the atoms (Bellemare et al. 2017), in its dense form."""
    shifted = (reward[:, None] + discount[:, None] * atoms).clamp(V_MIN, V_MAX)  # [batch, source]
    spacing = atoms[1] - atoms[0]
    overlap = (1 - (shifted[:, None, :] - atoms[None, :, None]).abs() / spacing).clamp(0, 1)  # [batch, target, source]
    return (overlap * probabilities[:, None, :]).sum(-1)


def norm(gradients):
    return torch.sqrt(sum((g * g).sum() for g in gradients.values()))


def run(dtype, initial, batch, out, prefix):
    networks = {net: {k: v.to(dtype) for k, v in parameters.items()} for net, parameters in initial.items()}
    online = {net: networks[net] for net in ("policy", "critic")}
    target = {net: networks[net + ".target"] for net in online}
    m = {net: {k: torch.zeros_like(v) for k, v in parameters.items()} for net, parameters in online.items()}
    v2 = {net: {k: torch.zeros_like(v) for k, v in parameters.items()} for net, parameters in online.items()}
    batch = {k: v.to(dtype) for k, v in batch.items()}
    atoms = torch.linspace(V_MIN, V_MAX, ATOMS, dtype=dtype)
    clips = {"row": [], "norm": []}
    for step in range(1, STEPS + 1):
        critic = {k: v.clone().requires_grad_() for k, v in online["critic"].items()}
        policy = {k: v.clone().requires_grad_() for k, v in online["policy"].items()}

        next_action = act(target["policy"], batch["next_observation"])
        next_probabilities = criticise(target["critic"], batch["next_observation"], next_action).softmax(-1)
        targets = project(next_probabilities, batch["reward"], batch["discount"], atoms)
        logits = criticise(critic, batch["observation"], batch["action"])
        td_error = -(targets * logits.log_softmax(-1)).sum(-1)  # one a row: the new priority
        critic_loss = (batch["weight"] * td_error).mean()

        action = act(policy, batch["next_observation"])
        q = (criticise(online["critic"], batch["next_observation"], action).softmax(-1) * atoms).sum(-1)
        dqda = torch.autograd.grad(q.sum(), action, retain_graph=True)[0]
        length = dqda.norm(dim=-1, keepdim=True)
        clips["row"] += (length > DQDA_LIMIT).flatten().tolist()
        clipped = torch.where(length > DQDA_LIMIT, dqda * (DQDA_LIMIT / length), dqda)
        policy_loss = 0.5 * ((clipped + action).detach() - action).square().sum(-1).mean()

        for net, loss, leaves in (("critic", critic_loss, critic), ("policy", policy_loss, policy)):
            gradients = dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values()))))
            length = norm(gradients)
            clips["norm"].append(bool(length > NORM_LIMIT))
            factor = min(1.0, NORM_LIMIT / length.item())
            for k, gradient in gradients.items():
                if step == 1:
                    out[f"{prefix}/gradient/{net}/{k}"] = gradient.clone()
                gradient = gradient * factor
                m[net][k] = BETA1 * m[net][k] + (1 - BETA1) * gradient
                v2[net][k] = BETA2 * v2[net][k] + (1 - BETA2) * gradient**2
                m_hat, v_hat = m[net][k] / (1 - BETA1**step), v2[net][k] / (1 - BETA2**step)
                online[net][k] = online[net][k] - LEARNING_RATE * m_hat / (v_hat.sqrt() + EPSILON)
        if step % TARGET_PERIOD == 0:
            target = {net: {k: v.clone() for k, v in parameters.items()} for net, parameters in online.items()}
        out[f"{prefix}/critic_loss/{step}"] = critic_loss.detach().reshape(1)
        out[f"{prefix}/policy_loss/{step}"] = -q.detach().mean().reshape(1)
        out[f"{prefix}/q_mean/{step}"] = (logits.detach().softmax(-1) * atoms).sum(-1).mean().reshape(1)
        out[f"{prefix}/td_error/{step}"] = td_error.detach()
    # Final state, under the names of learner/engine/program_state.hpp.
    for net in online:
        for k in online[net]:
            out[f"{prefix}/final/{net}/{k}"] = online[net][k]
            out[f"{prefix}/final/{net}.target/{k}"] = target[net][k]
            out[f"{prefix}/final/{net}/{k}.adam_m"] = m[net][k]
            out[f"{prefix}/final/{net}/{k}.adam_v"] = v2[net][k]
    for what, happened in clips.items():
        assert any(happened) and not all(happened), f"{what} clipping must be active in some cases only: {happened}"


def save_safetensors(tensors, path):
    """The format is a length, a JSON table and the bytes; the torch environment has no package for it."""
    header, offset, names = {}, 0, {torch.float32: "F32", torch.float64: "F64", torch.int32: "I32", torch.uint8: "U8"}
    for name, tensor in tensors.items():
        end = offset + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the data start on a multiple of 8
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.contiguous().numpy().tobytes())


def main():
    generator = torch.Generator().manual_seed(20)
    torch.set_num_threads(1)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    initial = {
        "policy": draw_network(POLICY_SIZES, OBS, ACT, generator),
        "critic": draw_network(CRITIC_SIZES, OBS + ACT, ATOMS, generator),
    }
    for net in ("policy", "critic"):  # targets that differ, so that a mix-up of the two shows
        initial[net + ".target"] = {k: 0.9 * v for k, v in initial[net].items()}
    low, high = torch.tensor(ACTION_LOW, dtype=torch.float64), torch.tensor(ACTION_HIGH, dtype=torch.float64)
    batch = {
        "observation": normal(BATCH, OBS),
        "action": low + (high - low) * torch.rand(BATCH, ACT, generator=generator, dtype=torch.float64),
        "reward": 3 * normal(BATCH),  # some rows project past the ends of the support
        "discount": torch.tensor([0.95, 0.9, 0.0, 0.99, 0.9, 1.0, 0.97, 0.5], dtype=torch.float64),
        "next_observation": normal(BATCH, OBS),
        "weight": 0.5 + torch.rand(BATCH, generator=generator, dtype=torch.float64),
    }
    # Inputs must be exact in float32, because that is what both precisions are fed with.
    initial = {net: {k: v.float().double() for k, v in parameters.items()} for net, parameters in initial.items()}
    batch = {k: v.float().double() for k, v in batch.items()}

    out = {f"batch/{k}": v.float() for k, v in batch.items()}
    for net, parameters in initial.items():
        for k, v in parameters.items():
            out[f"initial/{net}/{k}"] = v.float()
    run(torch.float64, initial, batch, out, "f64")
    run(torch.float32, initial, batch, out, "f32")
    path = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "golden" / "d4pg_step.safetensors"
    save_safetensors(dict(sorted(out.items())), path)
    print(f"{path}: {len(out)} tensors")


if __name__ == "__main__":
    main()
