#!/usr/bin/env python3
"""Policy inference with torch.jit: rival of bench/learner/inference_bench.cpp. NumPy in, NumPy out, one thread.

The traced module is frozen and optimised for inference; the value is calls per second.
"""
import json
import time

import numpy as np
import torch

OBS, ACT, SECONDS = 17, 6, 2.0


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    policy = torch.nn.Sequential(
        torch.nn.Linear(OBS, 256), torch.nn.LayerNorm(256), torch.nn.Tanh(),
        torch.nn.Linear(256, 256), torch.nn.ELU(), torch.nn.Linear(256, 256), torch.nn.ELU(),
        torch.nn.Linear(256, ACT), torch.nn.Tanh()).eval()  # fmt: skip
    with torch.inference_mode():
        for batch in (1, 16, 256):
            traced = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(policy, torch.zeros(batch, OBS))))
            observation = np.random.default_rng(1).normal(size=(batch, OBS)).astype(np.float32)
            for _ in range(50):
                action = traced(torch.from_numpy(observation)).numpy()
            calls, start = 0, time.perf_counter()
            while time.perf_counter() - start < SECONDS:
                for _ in range(20):
                    action = traced(torch.from_numpy(observation)).numpy()
                calls += 20
            rate = calls / (time.perf_counter() - start)
            assert np.isfinite(action).all()
            names = [f"policy_batch_{batch}"] + ([f"policy_bf16_batch_{batch}"] if batch > 1 else [])  # float32 is the rival of both
            for name in names:
                print(json.dumps({"name": name, "value": rate, "unit": "calls/s", "version": torch.__version__}), flush=True)


if __name__ == "__main__":
    main()
