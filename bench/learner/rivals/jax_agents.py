#!/usr/bin/env python3
"""Learner steps of SAC, TD3, DMPO, FlashSAC and DrQ-v2 in JAX: rival of bench/learner/agents_bench.cpp, with the networks, losses and
order of algorithms/sac, td3, dmpo, flashsac and drqv2, whose gradients are all taken at the same parameters. One jitted function with
donated state for each agent; TD3's and FlashSAC's policies learn in every second step, by lax.cond."""
import json
import multiprocessing
import os
import time

SECONDS = 3.0
OBSERVATIONS, ACTIONS, BATCH, WIDTH = 17, 6, 256, 256
FLASHSAC_BATCH, ATOMS = 512, 101
SIDE, CHANNELS = 84, 9  # DrQ-v2's images


def make_agents():
    """name -> (state, step(state, batch)); imports JAX, which takes its threads from the process' affinity."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    generator = np.random.default_rng(1)

    def layers(*sizes):
        return [(jnp.asarray(generator.uniform(-1, 1, size=(n, m)) / n**0.5, jnp.float32),
                 jnp.asarray(generator.uniform(-1, 1, size=m) / n**0.5, jnp.float32)) for n, m in zip(sizes, sizes[1:])]

    def mlp(parameters, x):
        for weight, bias in parameters[:-1]:
            x = jax.nn.relu(x @ weight + bias)
        weight, bias = parameters[-1]
        return x @ weight + bias

    def values(critic, observation, action):
        x = jnp.concatenate([observation, action], -1)
        return [mlp(one, x)[:, 0] for one in critic]

    def critics():
        return [layers(OBSERVATIONS + ACTIONS, WIDTH, WIDTH, 1) for _ in range(2)]

    def adam_state(parameters):
        return jax.tree.map(jnp.zeros_like, parameters), jax.tree.map(jnp.zeros_like, parameters)

    def adam(parameters, moments, gradients, count, rate):
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], gradients)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, moments[1], gradients)
        count = count.astype(jnp.float32)
        to_step, to_v = rate / (1 - 0.9**count), 1 / (1 - 0.999**count)
        new = jax.tree.map(lambda p, m, v: p - to_step * m / (jnp.sqrt(v * to_v) + 1e-8), parameters, m, v)
        return new, (m, v)

    def follow(targets, online):
        return jax.tree.map(lambda t, o: 0.995 * t + 0.005 * o, targets, online)

    def draw(policy, observation, key):
        mean, raw = jnp.split(mlp(policy, observation), 2, -1)
        log_stddev = -5 + 3.5 * (jnp.tanh(raw) + 1)
        noise = jax.random.normal(key, mean.shape)
        before = mean + jnp.exp(log_stddev) * noise
        of_tanh = 2 * (jnp.log(2.0) - before - jax.nn.softplus(-2 * before))
        return jnp.tanh(before), (-0.5 * noise**2 - log_stddev - 0.5 * jnp.log(2 * jnp.pi) - of_tanh).sum(-1)

    def sac_step(state, batch):
        observation, action, reward, discount, next_observation = batch
        online, key = state["online"], jax.random.fold_in(state["key"], state["count"])
        next_key, now_key = jax.random.split(key)
        alpha = jnp.exp(online["log_alpha"])
        next_action, next_log_prob = draw(online["policy"], next_observation, next_key)
        y = reward + discount * (jnp.minimum(*values(state["target"], next_observation, next_action)) - alpha * next_log_prob)

        def critic_loss(critic):
            return sum(((q - y) ** 2).mean() for q in values(critic, observation, action))

        def policy_loss(policy):
            drawn, log_prob = draw(policy, observation, now_key)
            return (alpha * log_prob - jnp.minimum(*values(online["critic"], observation, drawn))).mean(), log_prob

        (_, log_prob), policy_gradient = jax.value_and_grad(policy_loss, has_aux=True)(online["policy"])
        gradients = {"critic": jax.grad(critic_loss)(online["critic"]), "policy": policy_gradient,
                     "log_alpha": jax.grad(lambda log_alpha: -(jnp.exp(log_alpha) * (log_prob - ACTIONS)).mean())(online["log_alpha"])}
        count, new, moments = state["count"] + 1, {}, {}
        for name, rate in (("critic", 1e-3), ("policy", 3e-4), ("log_alpha", 1e-3)):
            new[name], moments[name] = adam(online[name], state["moments"][name], gradients[name], count, rate)
        return {"online": new, "target": follow(state["target"], new["critic"]), "moments": moments, "count": count, "key": state["key"]}

    def td3_step(state, batch):
        observation, action, reward, discount, next_observation = batch
        online, target = state["online"], state["target"]
        key = jax.random.fold_in(state["key"], state["count"])
        noise = jnp.clip(0.2 * jax.random.normal(key, action.shape), -0.5, 0.5)
        next_action = jnp.clip(jnp.tanh(mlp(target["policy"], next_observation)) + noise, -1, 1)
        y = reward + discount * jnp.minimum(*values(target["critic"], next_observation, next_action))
        critic_gradient = jax.grad(lambda critic: sum(((q - y) ** 2).mean() for q in values(critic, observation, action)))(online["critic"])
        count = state["count"] + 1

        def with_policy(_):
            def loss(policy):
                return -values(online["critic"], observation, jnp.tanh(mlp(policy, observation)))[0].mean()

            policy, moments = adam(online["policy"], state["moments"]["policy"], jax.grad(loss)(online["policy"]), count // 2, 3e-4)
            return policy, moments, follow(target, {"policy": policy, "critic": critic})

        critic, critic_moments = adam(online["critic"], state["moments"]["critic"], critic_gradient, count, 3e-4)
        policy, policy_moments, target = jax.lax.cond(
            count % 2 == 0, with_policy, lambda _: (online["policy"], state["moments"]["policy"], target), None)
        return {"online": {"policy": policy, "critic": critic}, "target": target,
                "moments": {"policy": policy_moments, "critic": critic_moments}, "count": count, "key": state["key"]}

    def layer_norm_mlp(parameters, x):
        (weight, bias), (gain, offset), *layers, (last_weight, last_bias) = parameters
        x = x @ weight + bias
        x = jnp.tanh((x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * gain + offset)
        for weight, bias in layers:
            x = jax.nn.elu(x @ weight + bias)
        return x @ last_weight + last_bias

    def normed_layers(*sizes):
        first, *others = layers(*sizes)
        return [first, (jnp.ones(sizes[1]), jnp.zeros(sizes[1])), *others]

    def dmpo_policy(parameters, observation):
        mean, raw = jnp.split(layer_norm_mlp(parameters, observation), 2, -1)
        return mean, jax.nn.softplus(raw) * (0.7 / np.log(2)) + 1e-6

    def dmpo_step(state, batch):
        observation, action, reward, discount, next_observation = batch
        online, samples, values_at = state["online"], 20, jnp.linspace(-150, 150, 51)
        target = jax.tree.map(lambda t, o: jnp.where(state["count"] % 100 == 0, o, t), state["target"],
                              {name: online[name] for name in ("policy", "critic")})
        mean, stddev = dmpo_policy(target["policy"], next_observation)
        key = jax.random.fold_in(state["key"], state["count"])
        actions = mean + stddev * jax.random.normal(key, (samples, *mean.shape))
        clipped = jnp.clip(actions, -1, 1)
        states = jnp.broadcast_to(next_observation, (samples, *next_observation.shape))
        log_probs = jax.nn.log_softmax(layer_norm_mlp(target["critic"], jnp.concatenate([states, clipped], -1)))
        q, cost = (jnp.exp(log_probs) * values_at).sum(-1), -jnp.linalg.norm(actions - clipped, axis=-1)
        following = jax.nn.softmax(jax.scipy.special.logsumexp(log_probs, 0))
        at = (jnp.clip(reward[:, None] + discount[:, None] * values_at, -150, 150) + 150) / 6
        lower, row = jnp.floor(at).astype(jnp.int32), jnp.arange(len(reward))[:, None]
        projected = jnp.zeros_like(following).at[row, lower].add(following * (1 - (at - lower)))
        projected = projected.at[row, jnp.minimum(lower + 1, 50)].add(following * (at - lower))

        def critic_loss(critic):
            logits = layer_norm_mlp(critic, jnp.concatenate([observation, jnp.clip(action, -1, 1)], -1))
            return -(projected * jax.nn.log_softmax(logits)).sum(-1).mean()

        def weigh(scores, temperature, limit):
            tempered = scores / temperature
            return jax.nn.softmax(tempered, 0), temperature * (limit + jax.scipy.special.logsumexp(tempered, 0).mean() - np.log(samples))

        def both(policy, duals):
            eta, penalty_eta, alpha_mean, alpha_stddev = jnp.split(jax.nn.softplus(duals) + 1e-8, (1, 2, 2 + ACTIONS))
            weights, dual_loss = weigh(q, eta[0], 0.1)
            penalty_weights, penalty_loss = weigh(cost, penalty_eta[0], 0.001)
            weights, dual_loss, policy_loss = jax.lax.stop_gradient(weights + penalty_weights), dual_loss + penalty_loss, 0
            new_mean, new_stddev = dmpo_policy(policy, next_observation)
            for of_mean, of_stddev, alpha, limit in ((new_mean, stddev, alpha_mean, 2.5e-3), (mean, new_stddev, alpha_stddev, 1e-6)):
                log_prob = (-0.5 * ((actions - of_mean) / of_stddev) ** 2 - jnp.log(of_stddev) - 0.5 * np.log(2 * np.pi)).sum(-1)
                ratio, shift = (stddev / of_stddev) ** 2, ((mean - of_mean) / of_stddev) ** 2
                kl = (0.5 * (ratio + shift - 1 - jnp.log(ratio))).mean(0)
                policy_loss += -(weights * log_prob).sum(0).mean() + (jax.lax.stop_gradient(alpha) * kl).sum()
                dual_loss += (alpha * (limit - jax.lax.stop_gradient(kl))).sum()
            return policy_loss + dual_loss  # each trains its own parameters alone

        policy_gradient, dual_gradient = jax.grad(both, argnums=(0, 1))(online["policy"], online["duals"])
        gradients = {"critic": jax.grad(critic_loss)(online["critic"]), "policy": policy_gradient, "duals": dual_gradient}
        count, new, moments = state["count"] + 1, {}, {}
        for name, rate in (("critic", 1e-4), ("policy", 1e-4), ("duals", 1e-2)):
            gradient = gradients[name]
            if name != "duals":
                norm_of_all = jnp.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(gradient)))
                gradient = jax.tree.map(lambda leaf: leaf * jnp.minimum(1, 40 / norm_of_all), gradient)
            new[name], moments[name] = adam(online[name], state["moments"][name], gradient, count, rate)
        new["duals"] = jnp.maximum(new["duals"], -18)
        return {"online": new, "target": target, "moments": moments, "count": count, "key": state["key"]}

    def unit(inputs, outputs):
        weight = generator.normal(size=(inputs, outputs))
        return jnp.asarray(weight / np.linalg.norm(weight, axis=0), jnp.float32)

    def norm(width):
        return {"gain": jnp.ones(width), "offset": jnp.zeros(width)}, {"mean": jnp.zeros(width), "variance": jnp.ones(width)}

    def residual(inputs, width, outputs):
        """Parameters and running statistics of FlashSAC's network of two blocks."""
        norms = [norm(inputs)] + [norm(size) for _ in range(2) for size in (4 * width, width)]
        weights = [unit(inputs, width)] + [unit(*size) for _ in range(2) for size in ((width, 4 * width), (4 * width, width))]
        parameters = {"weights": weights + [unit(width, outputs)], "norms": [gain for gain, _ in norms],
                      "gain": jnp.ones(width), "bias": jnp.zeros(outputs)}
        return parameters, [running for _, running in norms]

    def run_residual(parameters, running, x, training):
        moved = []

        def batch_norm(index, x):
            mean, variance = running[index]["mean"], running[index]["variance"]
            if training:
                mean, variance = x.mean(0), x.var(0)
                old, rows = running[index], x.shape[0]
                moved.append({"mean": old["mean"] + 0.01 * (mean - old["mean"]),
                              "variance": old["variance"] + 0.01 * (variance * rows / (rows - 1) - old["variance"])})
            of = parameters["norms"][index]
            return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * of["gain"] + of["offset"]

        weights = parameters["weights"]
        x = batch_norm(0, x) @ weights[0]
        for block in (1, 3):
            inner = jax.nn.relu(batch_norm(block, x @ weights[block]))
            x = x + jax.nn.relu(batch_norm(block + 1, inner @ weights[block + 1]))
        x = x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * parameters["gain"]
        return x @ weights[5] + parameters["bias"], jax.lax.stop_gradient(moved)

    def project(parameters):
        def together(tree):
            size = next(iter(tree.values())).shape[0]
            factor = jnp.sqrt(size / sum((value**2).sum() for value in tree.values()))
            return {name: value * factor for name, value in tree.items()}

        return {"weights": [weight / jnp.linalg.norm(weight, axis=0) for weight in parameters["weights"]],
                "norms": [together(of) for of in parameters["norms"]],
                "gain": together({"gain": parameters["gain"]})["gain"], "bias": parameters["bias"]}

    atoms = jnp.linspace(-5, 5, ATOMS)

    def mean_of(logits):
        return (jax.nn.softmax(logits) * atoms).sum(-1)

    def flashsac_draw(policy, running, rows, key, training, count):
        out, moved = run_residual(policy, running, rows, training)
        mean, raw = jnp.split(out[:count], 2, -1)
        log_stddev = -10 + 6 * (jnp.tanh(raw) + 1)
        noise = jax.random.normal(key, mean.shape)
        before = mean + jnp.exp(log_stddev) * noise
        of_tanh = 2 * (jnp.log(2.0) - before - jax.nn.softplus(-2 * before))
        log_prob = (-0.5 * noise**2 - log_stddev - 0.5 * jnp.log(2 * jnp.pi) - of_tanh).sum(-1)
        return jnp.tanh(before), log_prob, moved

    def flashsac_step(state, batch):
        observation, action, reward, discount, next_observation, returns = batch
        online, running, rows = state["online"], state["running"], len(batch[2])
        next_key, now_key = jax.random.split(jax.random.fold_in(state["key"], state["count"]))
        alpha = jnp.exp(online["log_alpha"])
        variance = state["variance"] + 0.001 * (returns.var() - state["variance"])
        peak = jnp.maximum(state["peak"], jnp.abs(returns).max())
        reward = reward / jnp.maximum(jnp.sqrt(variance + 1e-8), peak / 5)
        next_action, next_log_prob, _ = flashsac_draw(online["policy"], running["policy"], next_observation, next_key, False, rows)
        both = jnp.concatenate([jnp.concatenate([observation, next_observation]), jnp.concatenate([action, next_action])], -1)
        after = [run_residual(one, of, both, True) for one, of in zip(state["target"], running["target"])]
        logits = [out[rows:] for out, _ in after]
        first = mean_of(logits[0]) <= mean_of(logits[1])
        chosen = jax.nn.softmax(jnp.where(first[:, None], *logits))
        places = reward[:, None] + discount[:, None] * (atoms - alpha * next_log_prob[:, None])
        at = (jnp.clip(places, -5, 5) + 5) / (10 / (ATOMS - 1))
        lower = jnp.floor(at).astype(jnp.int32)
        row = jnp.arange(rows)[:, None]
        target = jnp.zeros_like(chosen).at[row, lower].add(chosen * (1 - (at - lower)))
        target = target.at[row, jnp.minimum(lower + 1, ATOMS - 1)].add(chosen * (at - lower))

        def critic_loss(critic):
            out = [run_residual(one, of, both, True) for one, of in zip(critic, running["critic"])]
            return sum(-(target * jax.nn.log_softmax(each[:rows])).sum(-1).mean() for each, _ in out) / 2, [moved for _, moved in out]

        critic_gradient, critic_running = jax.grad(critic_loss, has_aux=True)(online["critic"])
        count = state["count"] + 1

        def with_policy(_):
            def loss(policy):
                drawn, log_prob, moved = flashsac_draw(policy, running["policy"], jnp.concatenate([observation, next_observation]), now_key,
                                                       True, rows)
                seen = jnp.concatenate([observation, drawn], -1)
                judged = [mean_of(run_residual(one, of, seen, False)[0]) for one, of in zip(online["critic"], running["critic"])]
                return (alpha * log_prob - jnp.minimum(*judged)).mean(), (log_prob, moved)

            gradient, (log_prob, moved) = jax.grad(loss, has_aux=True)(online["policy"])
            entropy = 0.5 * np.log(2 * np.pi * np.e * 0.15**2) * ACTIONS
            policy, policy_moments = adam(online["policy"], state["moments"]["policy"], gradient, count // 2, 3e-4)
            of_alpha = jax.grad(lambda log_alpha: -(jnp.exp(log_alpha) * (log_prob + entropy)).mean())(online["log_alpha"])
            log_alpha, alpha_moments = adam(online["log_alpha"], state["moments"]["log_alpha"], of_alpha, count // 2, 3e-4)
            return project(policy), policy_moments, log_alpha, alpha_moments, moved

        unmoved = (online["policy"], state["moments"]["policy"], online["log_alpha"], state["moments"]["log_alpha"], running["policy"])
        policy, policy_moments, log_alpha, alpha_moments, policy_running = jax.lax.cond(count % 2 == 0, with_policy, lambda _: unmoved, None)
        critic, critic_moments = adam(online["critic"], state["moments"]["critic"], critic_gradient, count, 3e-4)
        critic = [project(one) for one in critic]
        return {"online": {"policy": policy, "critic": critic, "log_alpha": log_alpha},
                "target": jax.tree.map(lambda t, o: 0.99 * t + 0.01 * o, state["target"], critic),
                "running": {"policy": policy_running, "critic": critic_running, "target": [moved for _, moved in after]},
                "moments": {"policy": policy_moments, "critic": critic_moments, "log_alpha": alpha_moments},
                "variance": variance, "peak": peak, "count": count, "key": state["key"]}

    def encode(encoder, pixels, key):
        """Moved by up to 4 pixels each way: a crop of whole pixels."""
        padded = jnp.pad(pixels, ((0, 0), (4, 4), (4, 4), (0, 0)), mode="edge")
        places = jax.random.randint(key, (len(pixels), 2), 0, 9)
        x = jax.vmap(lambda image, at: jax.lax.dynamic_slice(image, (at[0], at[1], 0), (SIDE, SIDE, CHANNELS)))(padded, places)
        x = x.astype(jnp.float32) / 255 - 0.5
        for layer, (kernel, bias) in enumerate(encoder):
            x = jax.lax.conv_general_dilated(x, kernel, (2, 2) if layer == 0 else (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = jax.nn.relu(x + bias)
        return x.reshape(len(x), -1)

    def trunk(parameters, seen):
        weight, bias, gain, offset = parameters
        x = seen @ weight + bias
        return jnp.tanh((x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * gain + offset)

    def drqv2_policy(policy, seen, key):
        action = jnp.tanh(mlp(policy["layers"], trunk(policy["trunk"], seen)))
        drawn = action + jnp.clip(0.5 * jax.random.normal(key, action.shape), -0.3, 0.3)
        return drawn - jax.lax.stop_gradient(drawn - jnp.clip(drawn, -1 + 1e-6, 1 - 1e-6))

    def drqv2_values(critic, seen, action):
        return values(critic["heads"], trunk(critic["trunk"], seen), action)

    def drqv2_step(state, batch):
        pixels, action, reward, discount, next_pixels = batch
        online = state["online"]
        keys = jax.random.split(jax.random.fold_in(state["key"], state["count"]), 4)
        after = encode(online["encoder"], next_pixels, keys[0])
        y = reward + discount * jnp.minimum(*drqv2_values(state["target"], after, drqv2_policy(online["policy"], after, keys[1])))

        def critic_loss(encoder, critic):
            seen = encode(encoder, pixels, keys[2])
            return sum(((q - y) ** 2).mean() for q in drqv2_values(critic, seen, action)), seen

        def policy_loss(policy):
            return -jnp.minimum(*drqv2_values(online["critic"], seen, drqv2_policy(policy, seen, keys[3]))).mean()

        (of_encoder, of_critic), seen = jax.grad(critic_loss, argnums=(0, 1), has_aux=True)(online["encoder"], online["critic"])
        gradients = {"encoder": of_encoder, "critic": of_critic, "policy": jax.grad(policy_loss)(online["policy"])}
        count, new, moments = state["count"] + 1, {}, {}
        for name, gradient in gradients.items():
            new[name], moments[name] = adam(online[name], state["moments"][name], gradient, count, 1e-4)
        return {"online": new, "target": jax.tree.map(lambda t, o: 0.99 * t + 0.01 * o, state["target"], new["critic"]),
                "moments": moments, "count": count, "key": state["key"]}

    def state_of(online, target):
        return {"online": online, "target": jax.tree.map(jnp.copy, target), "count": jnp.zeros((), jnp.int32), "key": jax.random.key(1),
                "moments": {name: adam_state(value) for name, value in online.items()}}

    sac = {"policy": layers(OBSERVATIONS, WIDTH, WIDTH, 2 * ACTIONS), "critic": critics(), "log_alpha": jnp.zeros(())}
    td3 = {"policy": layers(OBSERVATIONS, WIDTH, WIDTH, ACTIONS), "critic": critics()}
    dmpo = {"policy": normed_layers(OBSERVATIONS, 256, 256, 256, 2 * ACTIONS),
            "critic": normed_layers(OBSERVATIONS + ACTIONS, 512, 512, 256, 51),
            "duals": jnp.asarray([10.0] * (2 + ACTIONS) + [1000.0] * ACTIONS)}
    actor, actor_running = residual(OBSERVATIONS, 128, 2 * ACTIONS)
    judges = [residual(OBSERVATIONS + ACTIONS, 256, ATOMS) for _ in range(2)]
    flashsac = state_of({"policy": actor, "critic": [one for one, _ in judges], "log_alpha": jnp.full((), np.log(0.01))},
                        [one for one, _ in judges])
    flashsac |= {"variance": jnp.ones(()), "peak": jnp.zeros(()),
                 "running": {"policy": actor_running, "critic": [of for _, of in judges],
                             "target": jax.tree.map(jnp.copy, [of for _, of in judges])}}
    def trunk_layers():
        (first,) = layers(35 * 35 * 32, 50)
        return (*first, jnp.ones(50), jnp.zeros(50))

    def kernel(inputs):
        return jnp.asarray(generator.normal(size=(3, 3, inputs, 32)) / (9 * inputs) ** 0.5, jnp.float32), jnp.zeros(32)

    drqv2 = {"encoder": [kernel(inputs) for inputs in (CHANNELS, 32, 32, 32)],
             "policy": {"trunk": trunk_layers(), "layers": layers(50, 1024, 1024, ACTIONS)},
             "critic": {"trunk": trunk_layers(), "heads": [layers(50 + ACTIONS, 1024, 1024, 1) for _ in range(2)]}}

    def images():
        return jnp.asarray(generator.integers(0, 256, size=(BATCH, SIDE, SIDE, CHANNELS)), jnp.uint8)

    def batch_of(rows, returns):
        columns = [generator.normal(size=(rows, OBSERVATIONS)), generator.uniform(-1, 1, size=(rows, ACTIONS)), generator.uniform(size=rows),
                   np.full(rows, 0.99), generator.normal(size=(rows, OBSERVATIONS))]
        return tuple(jnp.asarray(column, jnp.float32) for column in columns + ([generator.uniform(size=rows)] if returns else []))

    batch = batch_of(BATCH, False)
    agents = {"sac": (state_of(sac, sac["critic"]), sac_step, batch), "td3": (state_of(td3, td3), td3_step, batch),
              "dmpo": (state_of(dmpo, {name: dmpo[name] for name in ("policy", "critic")}), dmpo_step, batch),
              "flashsac": (flashsac, flashsac_step, batch_of(FLASHSAC_BATCH, True)),
              "drqv2": (state_of(drqv2, drqv2["critic"]), drqv2_step, (images(), *batch[1:4], images()))}
    return {name: (state, jax.jit(step, donate_argnums=0), batch) for name, (state, step, batch) in agents.items()}


def measure(threads, suffix):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import jax
    import numpy as np

    for name, (state, step, batch) in make_agents().items():
        state = step(state, batch)  # compiles
        each = 1 if batch[0].dtype == np.uint8 else 10  # a step from images takes a second
        for _ in range(2 * each):
            state = step(state, batch)
        jax.block_until_ready(state)
        steps, start = 0, time.perf_counter()
        while time.perf_counter() - start < SECONDS:
            for _ in range(each):
                state = step(state, batch)
            jax.block_until_ready(state)
            steps += each
        rate = steps / (time.perf_counter() - start)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state["online"]))
        print(json.dumps({"name": f"{name}_step_{suffix}", "value": rate, "unit": "steps/s", "version": jax.__version__}), flush=True)


def main():
    for threads, suffix in ((1, "1_thread"), (2, "2_threads")):
        if len(os.sched_getaffinity(0)) < threads:
            continue
        process = multiprocessing.get_context("spawn").Process(target=measure, args=(threads, suffix))
        process.start()
        process.join()
        assert process.exitcode == 0


if __name__ == "__main__":
    main()
