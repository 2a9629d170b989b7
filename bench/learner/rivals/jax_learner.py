#!/usr/bin/env python3
"""The D4PG learner step in JAX: rival of bench/learner/learner_bench.cpp, same networks, losses and clipping.

One jitted function with donated state, in float32. The bfloat16 rows of Troupe are set beside the same numbers, since
they are what a JAX user has by default; jax_bf16_learner.py is the like-for-like rival. XLA's thread pool takes its size
from the processor affinity at start, so every measurement has a process of its own, pinned before JAX is imported.
"""
import json
import multiprocessing
import os
import time

OBS, ACT, BATCH, ATOMS = 17, 6, 256, 51
POLICY_SIZES, CRITIC_SIZES = (256, 256, 256), (512, 512, 256)
V_MIN, V_MAX, DISCOUNT, LEARNING_RATE, TARGET_PERIOD = -150.0, 150.0, 0.99**5, 1e-4, 100
SECONDS = 4.0


def measure(rows, threads, matmul_dtype):
    """Prints one line for each row name; they share the one measurement."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import jax
    import jax.numpy as jnp
    import numpy as np

    generator = np.random.default_rng(1)

    def draw(inputs, sizes, outputs):
        layers, width = [], inputs
        for size in (*sizes, outputs):
            layers.append((jnp.asarray(generator.normal(size=(width, size)) / width**0.5, jnp.float32), jnp.zeros(size)))
            width = size
        return {"layers": layers, "scale": jnp.ones(sizes[0]), "offset": jnp.zeros(sizes[0])}

    def mlp(parameters, x):
        last = len(parameters["layers"]) - 1
        for index, (weight, bias) in enumerate(parameters["layers"]):
            x = jnp.matmul(x.astype(matmul_dtype), weight.astype(matmul_dtype), preferred_element_type=jnp.float32) + bias
            if index == 0:
                centred = x - x.mean(-1, keepdims=True)
                x = centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5)
                x = jnp.tanh(x * parameters["scale"] + parameters["offset"])
            elif index < last:
                x = jax.nn.elu(x)
        return x

    atoms = jnp.linspace(V_MIN, V_MAX, ATOMS)

    def project(probabilities, reward, discount):
        shifted = jnp.clip(reward[:, None] + DISCOUNT * discount[:, None] * atoms, V_MIN, V_MAX)
        overlap = jnp.clip(1 - jnp.abs(shifted[:, None, :] - atoms[None, :, None]) / (atoms[1] - atoms[0]), 0, 1)
        return jnp.einsum("bts,bs->bt", overlap, probabilities)

    def act(parameters, observation):
        return jnp.tanh(mlp(parameters, observation))

    def criticise(parameters, observation, action):
        return mlp(parameters, jnp.concatenate([observation, action], -1))

    def critic_loss(critic, target, batch):
        next_logits = criticise(target["critic"], batch["next_observation"], act(target["policy"], batch["next_observation"]))
        targets = project(jax.nn.softmax(next_logits), batch["reward"], batch["discount"])
        logits = criticise(critic, batch["observation"], batch["action"])
        return -(targets * jax.nn.log_softmax(logits)).sum(-1).mean()

    def policy_loss(policy, critic, batch):
        action = act(policy, batch["next_observation"])
        dqda = jax.grad(lambda a: (jax.nn.softmax(criticise(critic, batch["next_observation"], a)) @ atoms).sum())(action)
        dqda *= 1.0 / jnp.maximum(jnp.linalg.norm(dqda, axis=-1, keepdims=True), 1.0)
        return 0.5 * jnp.square(jax.lax.stop_gradient(dqda + action) - action).sum(-1).mean()

    def adam(parameters, gradients, m, v, step):
        norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(gradients)))
        gradients = jax.tree.map(lambda g: g * jnp.minimum(1.0, 40.0 / norm), gradients)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, gradients)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, gradients)
        rate, correction = LEARNING_RATE / (1 - 0.9**step), 1 / jnp.sqrt(1 - 0.999**step)
        return jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) * correction + 1e-8), parameters, m, v), m, v

    def step(state, batch):
        loss, critic_gradients = jax.value_and_grad(critic_loss)(state["online"]["critic"], state["target"], batch)
        policy_gradients = jax.grad(policy_loss)(state["online"]["policy"], state["online"]["critic"], batch)
        count = state["count"] + 1
        gradients = {"policy": policy_gradients, "critic": critic_gradients}
        online, m, v = {}, {}, {}
        for net in gradients:
            online[net], m[net], v[net] = adam(
                state["online"][net], gradients[net], state["m"][net], state["v"][net], count.astype(jnp.float32))
        target = jax.lax.cond(count % TARGET_PERIOD == 0, lambda: online, lambda: state["target"])
        return {"online": online, "target": target, "m": m, "v": v, "count": count}, loss

    online = {"policy": draw(OBS, POLICY_SIZES, ACT), "critic": draw(OBS + ACT, CRITIC_SIZES, ATOMS)}
    state = {
        "online": online,
        "target": jax.tree.map(jnp.copy, online),
        "m": jax.tree.map(jnp.zeros_like, online),
        "v": jax.tree.map(jnp.zeros_like, online),
        "count": jnp.zeros((), jnp.int32),
    }
    batch = {
        "observation": generator.normal(size=(BATCH, OBS)),
        "action": generator.uniform(-1, 1, size=(BATCH, ACT)),
        "reward": generator.uniform(size=BATCH),
        "discount": np.ones(BATCH),
        "next_observation": generator.normal(size=(BATCH, OBS)),
    }
    batch = {k: jnp.asarray(v, jnp.float32) for k, v in batch.items()}
    compiled = jax.jit(step, donate_argnums=0)
    for _ in range(20):
        state, loss = compiled(state, batch)
    loss.block_until_ready()
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        for _ in range(10):
            state, loss = compiled(state, batch)
        loss.block_until_ready()
        steps += 10
    rate = steps / (time.perf_counter() - start)
    assert np.isfinite(loss)
    for name in rows:
        print(json.dumps({"name": name, "value": rate, "unit": "steps/s", "version": jax.__version__}), flush=True)


def main(rows, matmul_dtype):
    """rows: thread count -> names of the rows that it is the value of."""
    for threads, names in rows.items():
        if len(os.sched_getaffinity(0)) < threads:
            continue
        process = multiprocessing.get_context("spawn").Process(target=measure, args=(names, threads, matmul_dtype))
        process.start()
        process.join()
        assert process.exitcode == 0


if __name__ == "__main__":
    main(
        {
            1: ["d4pg_step_1_thread", "d4pg_step_bf16_1_thread"],
            2: ["d4pg_step_2_threads", "d4pg_step_bf16_2_threads"],
        },
        "float32",
    )
