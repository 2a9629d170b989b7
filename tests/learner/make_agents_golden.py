#!/usr/bin/env python3
"""Writes golden/agents_step.safetensors: one step each of TD3 and SAC in PyTorch, in float64, with its noise.

tests/algorithms/agents_golden_test.cpp replays them and compares losses, priorities and all gradients. Networks, targets
and losses are CleanRL's (td3_continuous_action.py, sac_continuous_action.py), but that all gradients are taken at the same
parameters, that SAC's log-probabilities are those of actions in [-1, 1] and exact, where CleanRL adds 1e-6 to an argument
of a logarithm, and that rows have importance weights. Some rows end, some saturate tanh, some noise is clipped, and for
some either critic has the smaller value; the script fails where that is not so.

Usage: make_agents_golden.py [OUTPUT]   (environment: tools/python_env.sh torch)
"""
import math
import pathlib
import sys

import torch

from make_d4pg_golden import save_safetensors

OBS, ACT, BATCH, SIZES = 5, 2, 8, (16, 12)
LOW, HIGH = torch.tensor([-1.0, -0.5]).double(), torch.tensor([1.0, 2.0]).double()
TARGET_NOISE, TARGET_NOISE_CLIP = 0.2, 0.25
ALPHA, TARGET_ENTROPY = 0.3, -1.0 * ACT
GENERATOR = torch.Generator().manual_seed(23)


def normal(*shape):
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64).float().double()  # exact in float32


def draw_layer(name, inputs, outputs, factor=1.0):
    return {f"{name}/weight": (factor * normal(inputs, outputs) / inputs**0.5).float().double(),
            f"{name}/bias": (0.1 * normal(outputs)).float().double()}


def draw_mlp(name, inputs):
    layers, width = {}, inputs
    for index, size in enumerate(SIZES):
        layers |= draw_layer(f"{name}/layer{index}", width, size)
        width = size
    return layers


def draw_critics():
    critics = {}
    for name in ("first", "second"):
        critics |= draw_mlp(name, OBS + ACT) | draw_layer(f"{name}/value", SIZES[-1], 1)
    return critics


def layer(parameters, name, x):
    return x @ parameters[f"{name}/weight"] + parameters[f"{name}/bias"]


def mlp(parameters, name, x):
    for index in range(len(SIZES)):
        x = torch.relu(layer(parameters, f"{name}/layer{index}", x))
    return x


def values(parameters, observation, action):
    x = torch.cat([observation, action], -1)
    return [layer(parameters, f"{name}/value", mlp(parameters, name, x))[:, 0] for name in ("first", "second")]


def to_bounds(x):
    return x * (HIGH - LOW) / 2 + (HIGH + LOW) / 2


def record(out, agent, losses, networks, td_error):
    """Losses, and each group's gradient of its own loss alone."""
    for group, loss in losses.items():
        out[f"{agent}/{group}_loss"] = loss.detach().reshape(1)
        leaves = networks[group]
        for name, gradient in zip(leaves, torch.autograd.grad(loss, list(leaves.values()), retain_graph=True)):
            out[f"{agent}/gradient/{group}/{name}"] = gradient
    out[f"{agent}/td_error"] = td_error.detach()


def step_of_td3(batch, out):
    networks = {"policy": draw_mlp("policy", OBS) | draw_layer("policy/action", SIZES[-1], ACT, 2.0), "critic": draw_critics()}
    targets = {group: {k: (0.8 * v).float().double() for k, v in of.items()} for group, of in networks.items()}
    noise = normal(BATCH, ACT)
    keep(out, "td3", networks, targets, {"noise": noise})

    def act(parameters, observation):
        return torch.tanh(layer(parameters, "policy/action", mlp(parameters, "policy", observation)))

    raw = TARGET_NOISE * noise
    clipped = raw.clamp(-TARGET_NOISE_CLIP, TARGET_NOISE_CLIP)
    sometimes(raw != clipped, "noise clipped")
    unbounded = act(targets["policy"], batch["next_observation"]) + clipped
    sometimes(unbounded.abs() > 1, "action clipped")
    following = values(targets["critic"], batch["next_observation"], to_bounds(unbounded.clamp(-1, 1)))
    sometimes(following[0] < following[1], "first critic smaller")
    target = (batch["reward"] + batch["discount"] * torch.minimum(*following)).detach()
    current = values(networks["critic"], batch["observation"], batch["action"])
    errors = [q - target for q in current]
    losses = {
        "critic": (batch["weight"] * (errors[0] ** 2 + errors[1] ** 2)).mean(),
        "policy": -values(networks["critic"], batch["observation"], to_bounds(act(networks["policy"], batch["observation"])))[0].mean(),
    }
    record(out, "td3", losses, networks, (errors[0].abs() + errors[1].abs()) / 2)


def step_of_sac(batch, out):
    networks = {
        "policy": draw_mlp("policy", OBS) | draw_layer("policy/mean", SIZES[-1], ACT, 3.0) | draw_layer("policy/log_stddev", SIZES[-1], ACT),
        "critic": draw_critics(),
        "temperature": {"log_alpha": torch.tensor(math.log(ALPHA)).float().double().reshape(())},
    }
    targets = {"critic": {k: (0.8 * v).float().double() for k, v in networks["critic"].items()}}
    noise = {"next_noise": normal(BATCH, ACT), "noise": normal(BATCH, ACT)}
    keep(out, "sac", networks, targets, noise)

    def draw(observation, noise):
        features = mlp(networks["policy"], "policy", observation)
        mean = layer(networks["policy"], "policy/mean", features)
        log_stddev = -5 + 3.5 * (torch.tanh(layer(networks["policy"], "policy/log_stddev", features)) + 1)
        distribution = torch.distributions.TransformedDistribution(
            torch.distributions.Normal(mean, log_stddev.exp()), [torch.distributions.TanhTransform(cache_size=1)])
        action = torch.tanh(mean + log_stddev.exp() * noise)
        # The density of PyTorch's own transformed distribution, by way of the number before tanh.
        before = mean + log_stddev.exp() * noise
        log_prob = (distribution.base_dist.log_prob(before) - distribution.transforms[0].log_abs_det_jacobian(before, action)).sum(-1)
        return action, log_prob

    alpha = networks["temperature"]["log_alpha"].exp()
    next_action, next_log_prob = draw(batch["next_observation"], noise["next_noise"])
    sometimes(next_action.abs() > 0.99, "tanh saturated")
    following = values(targets["critic"], batch["next_observation"], to_bounds(next_action))
    sometimes(following[0] < following[1], "first critic smaller")
    target = (batch["reward"] + batch["discount"] * (torch.minimum(*following) - alpha * next_log_prob)).detach()
    current = values(networks["critic"], batch["observation"], batch["action"])
    errors = [q - target for q in current]
    action, log_prob = draw(batch["observation"], noise["noise"])
    now = torch.minimum(*values(networks["critic"], batch["observation"], to_bounds(action)))
    losses = {
        "critic": (batch["weight"] * (errors[0] ** 2 + errors[1] ** 2)).mean(),
        "policy": (alpha.detach() * log_prob - now).mean(),
        "temperature": -(alpha * (log_prob + TARGET_ENTROPY).detach()).mean(),
    }
    record(out, "sac", losses, networks, (errors[0].abs() + errors[1].abs()) / 2)


def sometimes(rows, what):
    assert rows.any() and not rows.all(), f"{what}: must be so in some cases only"


def keep(out, agent, networks, targets, noise):
    for group, of in networks.items():
        for name, value in of.items():
            out[f"{agent}/initial/{group}/{name}"] = value.float()
            value.requires_grad_()
    for group, of in targets.items():
        for name, value in of.items():
            out[f"{agent}/initial/{group}.average/{name}"] = value.float()
    for name, value in noise.items():
        out[f"{agent}/batch/{name}"] = value.float()


def main():
    torch.set_num_threads(1)
    batch = {
        "observation": normal(BATCH, OBS),
        "action": (LOW + (HIGH - LOW) * torch.rand(BATCH, ACT, generator=GENERATOR, dtype=torch.float64)).float().double(),
        "reward": normal(BATCH),
        "discount": torch.tensor([0.95, 0.9, 0.0, 0.99, 0.9, 1.0, 0.97, 0.5]).double(),
        "next_observation": 2 * normal(BATCH, OBS),
        "weight": (0.5 + torch.rand(BATCH, generator=GENERATOR, dtype=torch.float64)).float().double(),
    }
    out = {f"batch/{k}": v.float() for k, v in batch.items()}
    step_of_td3(batch, out)
    step_of_sac(batch, out)
    path = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "golden" / "agents_step.safetensors"
    save_safetensors(dict(sorted(out.items())), path)


if __name__ == "__main__":
    main()
