#!/usr/bin/env python3
"""Policy inference in JAX: rival of bench/learner/inference_bench.cpp. NumPy in, NumPy out, one thread.

XLA's thread pool takes its size from the processor affinity at start, so the process is pinned before JAX is imported.
The value is calls per second.
"""
import json
import os
import time

OBS, ACT, SIZES, SECONDS = 17, 6, (256, 256, 256), 2.0


def main():
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    import jax
    import jax.numpy as jnp
    import numpy as np

    generator = np.random.default_rng(1)
    layers, width = [], OBS
    for size in (*SIZES, ACT):
        layers.append((jnp.asarray(generator.normal(size=(width, size)) / width**0.5, jnp.float32), jnp.zeros(size)))
        width = size
    parameters = {"layers": layers, "scale": jnp.ones(SIZES[0]), "offset": jnp.zeros(SIZES[0])}

    @jax.jit
    def act(parameters, x):
        for index, (weight, bias) in enumerate(parameters["layers"]):
            x = x @ weight + bias
            if index == 0:
                centred = x - x.mean(-1, keepdims=True)
                x = centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5)
                x = jnp.tanh(x * parameters["scale"] + parameters["offset"])
            elif index < len(SIZES):
                x = jax.nn.elu(x)
        return jnp.tanh(x)

    for batch in (1, 16, 256):
        observation = generator.normal(size=(batch, OBS)).astype(np.float32)
        for _ in range(50):
            action = np.asarray(act(parameters, observation))
        calls, start = 0, time.perf_counter()
        while time.perf_counter() - start < SECONDS:
            for _ in range(20):
                action = np.asarray(act(parameters, observation))
            calls += 20
        rate = calls / (time.perf_counter() - start)
        assert np.isfinite(action).all()
        names = [f"policy_batch_{batch}"] + ([f"policy_bf16_batch_{batch}"] if batch > 1 else [])  # float32 is the rival of both
        for name in names:
            print(json.dumps({"name": name, "value": rate, "unit": "calls/s", "version": jax.__version__}), flush=True)


if __name__ == "__main__":
    main()
