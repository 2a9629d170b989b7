#!/usr/bin/env python3
"""Learner steps of SAC and TD3 in JAX: rival of bench/learner/agents_bench.cpp, with the networks, losses and order of
algorithms/sac and algorithms/td3, whose gradients are all taken at the same parameters. One jitted function with donated
state for each agent; TD3's policy learns in every second step, by lax.cond."""
import json
import multiprocessing
import os
import time

SECONDS = 3.0
OBSERVATIONS, ACTIONS, BATCH, WIDTH = 17, 6, 256, 256


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

    def state_of(online, target):
        return {"online": online, "target": jax.tree.map(jnp.copy, target), "count": jnp.zeros((), jnp.int32), "key": jax.random.key(1),
                "moments": {name: adam_state(value) for name, value in online.items()}}

    sac = {"policy": layers(OBSERVATIONS, WIDTH, WIDTH, 2 * ACTIONS), "critic": critics(), "log_alpha": jnp.zeros(())}
    td3 = {"policy": layers(OBSERVATIONS, WIDTH, WIDTH, ACTIONS), "critic": critics()}
    columns = (generator.normal(size=(BATCH, OBSERVATIONS)), generator.uniform(-1, 1, size=(BATCH, ACTIONS)), generator.uniform(size=BATCH),
               np.full(BATCH, 0.99), generator.normal(size=(BATCH, OBSERVATIONS)))
    batch = tuple(jnp.asarray(column, jnp.float32) for column in columns)
    agents = {"sac": (state_of(sac, sac["critic"]), sac_step), "td3": (state_of(td3, td3), td3_step)}
    return {name: (state, jax.jit(step, donate_argnums=0), batch) for name, (state, step) in agents.items()}


def measure(threads, suffix):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import jax
    import numpy as np

    for name, (state, step, batch) in make_agents().items():
        for _ in range(20):
            state = step(state, batch)
        jax.block_until_ready(state)
        steps, start = 0, time.perf_counter()
        while time.perf_counter() - start < SECONDS:
            for _ in range(10):
                state = step(state, batch)
            jax.block_until_ready(state)
            steps += 10
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
