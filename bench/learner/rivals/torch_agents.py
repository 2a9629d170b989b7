#!/usr/bin/env python3
"""Learner steps of SAC, TD3, DMPO, FlashSAC and DrQ-v2 in PyTorch: rival of bench/learner/agents_bench.cpp. The faster of eager mode
and torch.compile is what a row reports, and the version says which it was."""
import json
import os
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch_agents

SECONDS = 3.0


def rate(agent, batch):
    agent.step(batch)  # compiles, and allocates the optimisers' state
    each = 1 if batch[0].dtype == torch.uint8 else 10  # a step from images takes a second
    for _ in range(2 * each):
        agent.step(batch)
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        for _ in range(each):
            agent.step(batch)
        steps += each
    return steps / (time.perf_counter() - start)


def main():
    torch.manual_seed(1)
    for name, make in torch_agents.AGENTS.items():
        batch = torch_agents.random_batch(make)
        for threads, row in ((1, f"{name}_step_1_thread"), (2, f"{name}_step_2_threads")):
            if len(os.sched_getaffinity(0)) < threads:
                continue
            torch.set_num_threads(threads)
            rates = {}
            for form, compiler in torch_agents.FORMS.items():
                torch.compiler.reset()
                rates[form] = rate(make(compiler), batch)
            best = max(rates, key=rates.get)
            print(json.dumps({"name": row, "value": rates[best], "unit": "steps/s", "version": f"{torch.__version__} {best}"}), flush=True)


if __name__ == "__main__":
    main()
