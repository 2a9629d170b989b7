#!/usr/bin/env python3
"""Writes golden/agents_step.safetensors: one step each of TD3, SAC, DMPO, DrQ-v2, D4PG from pixels and FlashSAC in
PyTorch, in float64, with noise.

tests/algorithms/agents_golden_test.cpp replays them and compares losses, priorities and all gradients. Networks, targets
and losses are CleanRL's (td3_continuous_action.py, sac_continuous_action.py), but that all gradients are taken at the same
parameters, that SAC's log-probabilities are those of actions in [-1, 1] and exact, where CleanRL adds 1e-6 to an argument
of a logarithm, and that rows have importance weights. DMPO's are Acme's (acme/agents/tf/dmpo/learning.py and
acme/tf/losses/mpo.py). DrQ-v2's are those of its authors (facebookresearch/drqv2, drqv2.py and utils.py), the shift of
images by grid_sample() included, with the exceptions of the first two. D4PG's networks and losses are those of
make_d4pg_golden.py behind DrQ's encoder. FlashSAC's are those of its authors (Holiday-Robot/FlashSAC, agents/flashSAC),
from parameters that are projected already and running statistics that have moved; its columns of unit length and joint
norms are checked in the file's initial values. Some rows end, some saturate tanh, some noise is clipped, for some
either critic has the smaller value, some actions lie beyond their bounds and some divergences above their limits; the
script fails where that is not so.

Usage: make_agents_golden.py [OUTPUT]   (environment: tools/python_env.sh torch)
"""
import math
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch.distributions import Normal, kl_divergence

from make_d4pg_golden import project, save_safetensors

OBS, ACT, BATCH, SIZES = 5, 2, 8, (16, 12)
LOW, HIGH = torch.tensor([-1.0, -0.5]).double(), torch.tensor([1.0, 2.0]).double()
TARGET_NOISE, TARGET_NOISE_CLIP = 0.2, 0.25
ALPHA, TARGET_ENTROPY = 0.3, -1.0 * ACT
SAMPLES, ATOMS, V_MIN, V_MAX = 4, 11, -6.0, 6.0
LIMITS = {"samples": 0.1, "penalty": 0.001, "mean": 0.02, "stddev": 0.03}
BLOCKS, WIDTH = 2, 9
SIDE, CHANNELS, FILTERS, FEATURES, PADDING, NOISE_CLIP = 17, 4, 3, 6, 4, 0.3
ACTION_GRADIENT_CLIP = 0.4
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


def draw_layer_norm_mlp(inputs):
    layers, width = {}, inputs
    for index, size in enumerate(SIZES):
        layers |= draw_layer(f"layer{index}", width, size)
        if index == 0:
            layers |= {"norm/gain": (1 + 0.1 * normal(size)).float().double(), "norm/offset": (0.1 * normal(size)).float().double()}
        width = size
    return layers


def layer_norm_mlp(parameters, x):
    for index, size in enumerate(SIZES):
        x = layer(parameters, f"layer{index}", x)
        if index == 0:
            x = torch.nn.functional.layer_norm(x, (size,), parameters["norm/gain"], parameters["norm/offset"], 1e-5).tanh()
        else:
            x = torch.nn.functional.elu(x)
    return x


def step_of_dmpo(batch, out):
    networks = {
        "policy": draw_layer_norm_mlp(OBS) | draw_layer("mean", SIZES[-1], ACT) | draw_layer("stddev", SIZES[-1], ACT),
        "critic": draw_layer_norm_mlp(OBS + ACT) | draw_layer(f"layer{len(SIZES)}", SIZES[-1], ATOMS, 3.0),
        "duals": {"temperature": torch.tensor(-0.75).double(), "penalty_temperature": torch.tensor(-2.5).double(),
                  "alpha_mean": torch.tensor([0.25, -20.0]).double(), "alpha_stddev": torch.tensor([1.5, -0.5]).double()},
    }
    targets = {group: {k: (0.8 * v).float().double() for k, v in networks[group].items()} for group in ("policy", "critic")}
    noise = normal(BATCH, SAMPLES, ACT)
    batch = batch | {"action": (1.5 * batch["action"]).float().double()}
    sometimes((batch["action"] < LOW) | (batch["action"] > HIGH), "action beyond its bounds")
    keep(out, "dmpo", networks, targets, {"noise": noise, "action": batch["action"]}, "target")
    # Acme sets the variables themselves to their least value before each step.
    networks["duals"] = {k: v.detach().clamp(min=-18).requires_grad_() for k, v in networks["duals"].items()}

    def policy(parameters, observation):
        features = layer_norm_mlp(parameters, observation)
        stddev = torch.nn.functional.softplus(layer(parameters, "stddev", features)) * (0.7 / math.log(2)) + 1e-6
        return layer(parameters, "mean", features), stddev

    def critic(parameters, observation, action):
        action = torch.minimum(torch.maximum(action, LOW), HIGH)
        return layer(parameters, f"layer{len(SIZES)}", layer_norm_mlp(parameters, torch.cat([observation, action], -1)))

    def weigh(scores, temperature, limit):
        tempered = scores.detach() / temperature
        loss = temperature * (limit + torch.logsumexp(tempered, 0).mean() - math.log(SAMPLES))
        return tempered.softmax(0).detach(), loss

    # Samples are the first dimension, as in Acme.
    atoms = torch.linspace(V_MIN, V_MAX, ATOMS, dtype=torch.float64)
    observation = batch["next_observation"]
    target_mean, target_stddev = (x.detach() for x in policy(targets["policy"], observation))
    actions = target_mean + target_stddev * noise.transpose(0, 1)
    sometimes(actions.abs() > 1, "draw beyond its bounds")
    tiled = observation.expand(SAMPLES, BATCH, OBS)
    log_probs = critic(targets["critic"], tiled, to_bounds(actions)).log_softmax(-1).detach()
    q = (log_probs.exp() * atoms).sum(-1)

    following = torch.logsumexp(log_probs, 0).softmax(-1)
    td_error = -(project(following, batch["reward"], batch["discount"], atoms)
                 * critic(networks["critic"], batch["observation"], batch["action"]).log_softmax(-1)).sum(-1)

    temperature, penalty_temperature, alpha_mean, alpha_stddev = (
        torch.nn.functional.softplus(networks["duals"][name]) + 1e-8
        for name in ("temperature", "penalty_temperature", "alpha_mean", "alpha_stddev"))
    weights, temperature_loss = weigh(q, temperature, LIMITS["samples"])
    cost = -(actions - actions.clamp(-1, 1)).norm(dim=-1)
    penalty_weights, penalty_loss = weigh(cost, penalty_temperature, LIMITS["penalty"])
    weights = weights + penalty_weights
    mean, stddev = policy(networks["policy"], observation)
    fixed_stddev, fixed_mean = Normal(mean, target_stddev), Normal(target_mean, stddev)
    policy_loss, dual_loss = torch.zeros(()).double(), temperature_loss + penalty_loss
    for distribution, alpha, limit in ((fixed_stddev, alpha_mean, LIMITS["mean"]), (fixed_mean, alpha_stddev, LIMITS["stddev"])):
        policy_loss = policy_loss - (weights * distribution.log_prob(actions).sum(-1)).sum(0).mean()
        kl = kl_divergence(Normal(target_mean, target_stddev), distribution).mean(0)
        sometimes(kl > limit, "divergence above its limit")
        policy_loss = policy_loss + (alpha.detach() * kl).sum()
        dual_loss = dual_loss + (alpha * (limit - kl.detach())).sum()
    record(out, "dmpo", {"critic": (batch["weight"] * td_error).mean(), "policy": policy_loss, "duals": dual_loss}, networks,
           td_error)


def shifted(pixels, offsets):
    """RandomShiftsAug.forward() with its draws, of pixels [n, h, w, c]; offsets: [n, 2], of columns and of rows."""
    x = pixels.double().permute(0, 3, 1, 2)
    n, c, h, w = x.size()
    assert h == w
    x = F.pad(x, (PADDING,) * 4, "replicate")
    eps = 1.0 / (h + 2 * PADDING)
    arange = torch.linspace(-1.0 + eps, 1.0 - eps, h + 2 * PADDING, dtype=x.dtype)[:h]
    arange = arange.unsqueeze(0).repeat(h, 1).unsqueeze(2)
    base_grid = torch.cat([arange, arange.transpose(1, 0)], dim=2).unsqueeze(0).repeat(n, 1, 1, 1)
    shift = offsets.double().reshape(n, 1, 1, 2) * 2.0 / (h + 2 * PADDING)
    return F.grid_sample(x, base_grid + shift, padding_mode="zeros", align_corners=False)


def draw_encoder():
    encoder = {}
    for index in range(4):
        channels = CHANNELS if index == 0 else FILTERS
        encoder[f"conv{index}/weight"] = (1.5 * normal(3, 3, channels, FILTERS) / (9 * channels) ** 0.5).float().double()
        encoder[f"conv{index}/bias"] = (0.1 * normal(FILTERS)).float().double()
    return encoder


def draw_trunk():
    return {"trunk/weight": normal(2 * 2 * FILTERS, FEATURES), "trunk/bias": (0.1 * normal(FEATURES)).float().double(),
            "trunk/gain": (1 + 0.1 * normal(FEATURES)).float().double(), "trunk/offset": (0.1 * normal(FEATURES)).float().double()}


def encode(encoder, images):
    h = images / 255.0 - 0.5
    for index in range(4):
        weight = encoder[f"conv{index}/weight"].permute(3, 2, 0, 1)
        h = torch.relu(F.conv2d(h, weight, encoder[f"conv{index}/bias"], stride=2 if index == 0 else 1))
    return h.permute(0, 2, 3, 1).reshape(BATCH, -1)


def trunk(parameters, seen):
    x = seen @ parameters["trunk/weight"] + parameters["trunk/bias"]
    return torch.tanh(F.layer_norm(x, (FEATURES,), parameters["trunk/gain"], parameters["trunk/offset"]))


def step_of_drqv2(batch, out):
    GENERATOR.manual_seed(26)  # whatever comes before
    pixels = {name: torch.randint(0, 256, (BATCH, SIDE, SIDE, CHANNELS), generator=GENERATOR) for name in ("pixels", "next_pixels")}
    offsets = {name: torch.randint(0, 2 * PADDING + 1, (BATCH, 2), generator=GENERATOR) for name in ("shift", "next_shift")}
    offsets["shift"][0] = torch.tensor([0, 2 * PADDING])
    encoder = draw_encoder()

    def draw_heads():
        heads = {}
        for name in ("first", "second"):
            heads |= draw_mlp(name, FEATURES + ACT) | draw_layer(f"{name}/value", SIZES[-1], 1)
        return heads

    networks = {"encoder": encoder,
                "policy": draw_trunk() | draw_mlp("policy", FEATURES) | draw_layer("policy/action", SIZES[-1], ACT, 3.0),
                "critic": draw_trunk() | draw_heads()}
    targets = {"critic": {k: (0.8 * v).float().double() for k, v in networks["critic"].items()}}
    noise = {name: (0.4 * normal(BATCH, ACT)).float().double() for name in ("next_noise", "noise")}
    keep(out, "drqv2", networks, targets, noise)
    for name, images in pixels.items():
        out[f"drqv2/batch/{name}"] = images.to(torch.uint8)
    for name, offset in offsets.items():  # rows first, and as draws in [0, 1)
        out[f"drqv2/batch/{name}"] = ((offset.flip(1) + 0.5) / (2 * PADDING + 1)).float()

    def sample(seen, noise):
        """TruncatedNormal.sample(clip), with its noise."""
        features = mlp(networks["policy"], "policy", trunk(networks["policy"], seen))
        x = torch.tanh(layer(networks["policy"], "policy/action", features)) + noise.clamp(-NOISE_CLIP, NOISE_CLIP)
        clamped = x.clamp(-1 + 1e-6, 1 - 1e-6)
        sometimes(x != clamped, "action clipped")
        return to_bounds(x - x.detach() + clamped.detach())

    def judge(parameters, seen, action):
        return values(parameters, trunk(parameters, seen), action)

    for each in noise.values():
        sometimes(each.abs() > NOISE_CLIP, "noise clipped")
    augmented = {name: shifted(pixels[name], offsets[name.replace("pixels", "shift")]) for name in pixels}
    for name, images in augmented.items():
        whole = images.detach().round()  # the grid's weights are 0 and 1, but for rounding errors
        assert (images - whole).abs().max() < 1e-9
        out[f"drqv2/shifted/{name}"] = whole.permute(0, 2, 3, 1).to(torch.uint8)
    now, following = encode(encoder, augmented["pixels"]), encode(encoder, augmented["next_pixels"])
    after = judge(targets["critic"], following, sample(following, noise["next_noise"]))
    sometimes(after[0] < after[1], "first critic smaller")
    target = (batch["reward"] + batch["discount"] * torch.minimum(*after)).detach()
    errors = [q - target for q in judge(networks["critic"], now, batch["action"])]
    judged = judge(networks["critic"], now.detach(), sample(now.detach(), noise["noise"]))
    sometimes(judged[0] < judged[1], "first critic smaller")
    critic = (batch["weight"] * (errors[0] ** 2 + errors[1] ** 2)).mean()
    losses = {"encoder": critic, "critic": critic, "policy": -torch.minimum(*judged).mean()}
    record(out, "drqv2", losses, networks, (errors[0].abs() + errors[1].abs()) / 2)


def step_of_d4pg(batch, out):
    """From pixels: who judges the next action is a target as a whole, encoder included, the encoder learns from the
    critic's loss alone, and the policy is judged in pixels by what the online encoder sees there (DrQ)."""
    GENERATOR.manual_seed(27)  # whatever comes before
    pixels = {name: torch.randint(0, 256, (BATCH, SIDE, SIDE, CHANNELS), generator=GENERATOR) for name in ("pixels", "next_pixels")}
    offsets = {name: torch.randint(0, 2 * PADDING + 1, (BATCH, 2), generator=GENERATOR) for name in ("shift", "next_shift")}
    networks = {"encoder": draw_encoder(),
                "policy": draw_trunk() | draw_layer_norm_mlp(FEATURES) | draw_layer(f"layer{len(SIZES)}", SIZES[-1], ACT, 3.0),
                "critic": draw_trunk() | draw_layer_norm_mlp(FEATURES + ACT) | draw_layer(f"layer{len(SIZES)}", SIZES[-1], ATOMS)}
    targets = {group: {k: (0.8 * v).float().double() for k, v in of.items()} for group, of in networks.items()}
    keep(out, "d4pg_pixels", networks, targets, {}, "target")
    for name, images in pixels.items():
        out[f"d4pg_pixels/batch/{name}"] = images.to(torch.uint8)
    for name, offset in offsets.items():  # rows first, and as draws in [0, 1)
        out[f"d4pg_pixels/batch/{name}"] = ((offset.flip(1) + 0.5) / (2 * PADDING + 1)).float()
    atoms = torch.linspace(V_MIN, V_MAX, ATOMS, dtype=torch.float64)

    def layers_and_head(parameters, x):
        return layer(parameters, f"layer{len(SIZES)}", layer_norm_mlp(parameters, x))

    def see(group, name):
        return encode(group["encoder"], shifted(pixels[name], offsets[name.replace("pixels", "shift")]))

    def act(group, seen):
        return to_bounds(torch.tanh(layers_and_head(group["policy"], trunk(group["policy"], seen))))

    def judge(group, seen, action):
        return layers_and_head(group["critic"], torch.cat([trunk(group["critic"], seen), action], -1))

    following = see(targets, "next_pixels")
    probabilities = judge(targets, following, act(targets, following)).softmax(-1)
    target = project(probabilities, batch["reward"], batch["discount"], atoms).detach()
    now = see(networks, "pixels")
    td_error = -(target * judge(networks, now, batch["action"]).log_softmax(-1)).sum(-1)
    critic = (batch["weight"] * td_error).mean()
    action = act(networks, now.detach())
    mean = (judge(networks, now.detach(), action).softmax(-1) * atoms).sum(-1)
    by_action = torch.autograd.grad(mean.sum(), action, retain_graph=True)[0]
    length = by_action.norm(dim=-1, keepdim=True)
    sometimes(length > ACTION_GRADIENT_CLIP, "gradient by the action clipped")
    clipped = by_action * (ACTION_GRADIENT_CLIP / length).clamp(max=1)
    # Its value is the mean's, its gradient goes by the clipped one.
    policy = (-mean.detach() - ((action - action.detach()) * clipped).sum(-1)).mean()
    record(out, "d4pg_pixels", {"encoder": critic, "critic": critic, "policy": policy}, networks, td_error)


def unit(x):
    return torch.nn.functional.normalize(x, dim=0).float().double()


def draw_norm(name, size):
    """Gain and offset, together sqrt(size) long."""
    gain, offset = 1 + 0.2 * normal(size), 0.3 * normal(size)
    factor = math.sqrt(size) / torch.cat([gain, offset]).norm()
    return {f"{name}/gain": (factor * gain).float().double(), f"{name}/offset": (factor * offset).float().double()}


def draw_residual(name, inputs, heads):
    layers = draw_norm(f"{name}embed/norm", inputs) | {f"{name}embed/weight": unit(normal(inputs, WIDTH))}
    for block in range(BLOCKS):
        at = f"{name}block{block}"
        layers |= {f"{at}/wide/weight": unit(normal(WIDTH, 4 * WIDTH))} | draw_norm(f"{at}/norm1", 4 * WIDTH)
        layers |= {f"{at}/narrow/weight": unit(normal(4 * WIDTH, WIDTH))} | draw_norm(f"{at}/norm2", WIDTH)
    gain = 1 + 0.2 * normal(WIDTH)
    layers |= {f"{name}norm/gain": (gain * math.sqrt(WIDTH) / gain.norm()).float().double()}
    for head, size in heads.items():
        layers |= {f"{name}{head}/weight": unit(normal(WIDTH, size)), f"{name}{head}/bias": (0.1 * normal(size)).float().double()}
    return layers


def draw_statistics(parameters):
    """Running mean and variance of each batch norm, by the place of its gain."""
    return {name[: -len("/gain")]: (0.5 * normal(value.numel()), (0.5 + normal(value.numel()) ** 2).float().double())
            for name, value in parameters.items() if name.rsplit("/", 1)[0].rsplit("/", 1)[-1].startswith("norm") and name.endswith("/gain")
            and not name.removeprefix("first/").removeprefix("second/") == "norm/gain"}


def residual(parameters, statistics, name, x, training):
    def norm(at, x):
        mean, variance = (each.clone() for each in statistics[f"{name}{at}"])
        return torch.nn.functional.batch_norm(x, mean, variance, parameters[f"{name}{at}/gain"], parameters[f"{name}{at}/offset"],
                                              training, 0.01, 1e-5)

    x = norm("embed/norm", x) @ parameters[f"{name}embed/weight"]
    for block in range(BLOCKS):
        at = f"block{block}"
        inner = torch.relu(norm(f"{at}/norm1", x @ parameters[f"{name}{at}/wide/weight"]))
        x = x + torch.relu(norm(f"{at}/norm2", inner @ parameters[f"{name}{at}/narrow/weight"]))
    return torch.nn.functional.rms_norm(x, (WIDTH,), parameters[f"{name}norm/gain"], 1e-6)


def step_of_flashsac(batch, out):
    networks = {
        "policy": draw_residual("", OBS, {"mean": ACT, "log_stddev": ACT}),
        "critic": draw_residual("first/", OBS + ACT, {"value": ATOMS}) | draw_residual("second/", OBS + ACT, {"value": ATOMS}),
        "temperature": {"log_alpha": torch.tensor(math.log(ALPHA)).float().double().reshape(())},
    }
    targets = {"critic": {k: (0.8 * v).float().double() for k, v in networks["critic"].items()}}
    noise = {"next_noise": normal(BATCH, ACT), "noise": normal(BATCH, ACT)}
    statistics = {group: draw_statistics(networks[group]) for group in ("policy", "critic")}
    keep(out, "flashsac", networks, targets, noise)
    for group, of in statistics.items():
        for name, (mean, variance) in of.items():
            out[f"flashsac/initial/state/{group}/{name}/mean"] = mean.float()
            out[f"flashsac/initial/state/{group}/{name}/variance"] = variance.float()
    variance, peak, most = 2.25, 6.0, 3.0
    out["flashsac/initial/state/returns/variance"] = torch.tensor([[variance]])
    out["flashsac/initial/state/returns/peak"] = torch.tensor([[peak]])
    out["flashsac/batch/return"] = torch.zeros(BATCH)
    atoms = torch.linspace(-most, most, ATOMS, dtype=torch.float64)

    def policy(observation, noise, training):
        features = residual(networks["policy"], statistics["policy"], "", observation, training)
        mean = layer(networks["policy"], "mean", features)
        log_stddev = -10 + 6 * (1 + torch.tanh(layer(networks["policy"], "log_stddev", features)))
        before = mean[:BATCH] + log_stddev[:BATCH].exp() * noise
        distribution = torch.distributions.Normal(mean[:BATCH], log_stddev[:BATCH].exp())
        jacobian = 2 * (math.log(2) - before - torch.nn.functional.softplus(-2 * before))
        return torch.tanh(before), (distribution.log_prob(before) - jacobian).sum(-1)

    def log_probs(parameters, observation, action, training):
        x = torch.cat([observation, action], -1)
        return [torch.log_softmax(layer(parameters, f"{name}/value", residual(parameters, statistics["critic"], f"{name}/", x, training)), -1)
                for name in ("first", "second")]

    def mean_of(log_prob):
        return (log_prob.exp() * atoms).sum(-1)

    alpha = networks["temperature"]["log_alpha"].exp()
    seen, following = batch["observation"], batch["next_observation"]
    action, log_prob = policy(torch.cat([seen, following]), noise["noise"], True)
    judged = [mean_of(each) for each in log_probs(networks["critic"], seen, to_bounds(action), False)]
    sometimes(judged[0] < judged[1], "first critic smaller")
    next_action, next_log_prob = policy(following, noise["next_noise"], False)
    states, actions = torch.cat([seen, following]), torch.cat([batch["action"], to_bounds(next_action)]).detach()
    after = [each[BATCH:] for each in log_probs(targets["critic"], states, actions, True)]
    first_is_less = mean_of(after[0]) <= mean_of(after[1])
    sometimes(first_is_less, "first critic smaller")
    chosen = torch.where(first_is_less[:, None], after[0], after[1]).exp()
    reward = batch["reward"] / max(math.sqrt(variance + 1e-8), peak / most)
    places = reward[:, None] + batch["discount"][:, None] * (atoms - (alpha * next_log_prob)[:, None])
    sometimes(places.abs() > most, "atom beyond the support")
    spacing = atoms[1] - atoms[0]
    overlap = (1 - (places.clamp(-most, most)[:, None, :] - atoms[None, :, None]).abs() / spacing).clamp(0, 1)
    target = (overlap * chosen[:, None, :]).sum(-1).detach()
    current = [each[:BATCH] for each in log_probs(networks["critic"], states, actions, True)]
    rows = -sum((target * each).sum(-1) for each in current) / 2
    target_entropy = ACT * 0.5 * math.log(2 * math.pi * math.e * 0.15**2)
    losses = {
        "critic": (batch["weight"] * rows).mean(),
        "policy": (alpha.detach() * log_prob - torch.minimum(*judged)).mean(),
        "temperature": (alpha * (-log_prob - target_entropy).detach()).mean(),
    }
    record(out, "flashsac", losses, networks, rows)


def sometimes(rows, what):
    assert rows.any() and not rows.all(), f"{what}: must be so in some cases only"


def keep(out, agent, networks, targets, noise, follower="average"):
    for group, of in networks.items():
        for name, value in of.items():
            out[f"{agent}/initial/{group}/{name}"] = value.float()
            value.requires_grad_()
    for group, of in targets.items():
        for name, value in of.items():
            out[f"{agent}/initial/{group}.{follower}/{name}"] = value.float()
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
    step_of_dmpo(batch, out)
    step_of_drqv2(batch, out)
    step_of_d4pg(batch, out)
    step_of_flashsac(batch, out)
    path = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "golden" / "agents_step.safetensors"
    save_safetensors(dict(sorted(out.items())), path)


if __name__ == "__main__":
    main()
