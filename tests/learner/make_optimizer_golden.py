#!/usr/bin/env python3
"""Writes golden/optimizers.safetensors: trajectories of PyTorch's optimisers and schedules, in float64.

The gradient at w is pull * (w - goal), as in optimizer_test.cpp, which replays each case. Schedules with a warm-up are
LambdaLR or SequentialLR as PyTorch's reference training scripts build them, so that both sides say it in their own way.

Usage: make_optimizer_golden.py [OUTPUT]   (environment: tools/python_env.sh torch)
"""
import pathlib
import sys

import torch
from torch.optim import lr_scheduler

from make_d4pg_golden import save_safetensors

STEPS = 24
SCHEDULED = 20  # all schedules end here; PyTorch's cosine would rise again, ours stays
PULL = (1.0, -0.5, 0.5, 3.0, 0.0, 0.25)
GOAL = (0.5, 1.0, -2.0, 0.25, 3.0, -1.0)
START = (0.25, -0.5, 0.75, -1.0, 1.5, 2.0)


def warm_up(optimizer, steps, after):
    """(t + 1) / steps for the first updates, then `after`."""
    first = lr_scheduler.LinearLR(optimizer, start_factor=1 / steps, end_factor=1.0, total_iters=steps - 1)
    return lr_scheduler.SequentialLR(optimizer, [first, after], milestones=[steps])


CASES = {
    "sgd_decay": (lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.05), None),
    "momentum_decay": (lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.05), None),
    "nesterov": (lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True), None),
    "nesterov_decay_cosine": (
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.8, nesterov=True, weight_decay=0.1),
        lambda o: warm_up(o, 4, lr_scheduler.CosineAnnealingLR(o, T_max=16, eta_min=0.05 * 0.1))),
    "adamw": (lambda p: torch.optim.AdamW(p, lr=0.1, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.2), None),
    "adamw_linear": (
        lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.3),
        lambda o: warm_up(o, 5, lr_scheduler.LinearLR(o, start_factor=1.0, end_factor=0.25, total_iters=15))),
    "sgd_steps": (
        lambda p: torch.optim.SGD(p, lr=0.2), lambda o: lr_scheduler.MultiStepLR(o, milestones=[6, 7, 15], gamma=0.5)),
    "adam_no_schedule": (lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.0, 0.9)), None),
}


def main():
    out = {}
    pull, goal, start = (torch.tensor(x, dtype=torch.float64) for x in (PULL, GOAL, START))
    for name, (make, schedule) in CASES.items():
        w = start.clone().requires_grad_()
        optimizer = make([w])
        scheduler = schedule(optimizer) if schedule else None
        average, rows, averages = start.clone(), [], []
        for step in range(1, STEPS + 1):
            w.grad = pull * (w.detach() - goal)
            optimizer.step()
            if scheduler and step <= SCHEDULED:
                scheduler.step()
            average = 0.75 * average + 0.25 * w.detach()
            rows.append(w.detach().clone())
            averages.append(average)
        out[f"{name}/value"] = torch.stack(rows)
        out[f"{name}/average"] = torch.stack(averages)
    path = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "golden" / "optimizers.safetensors"
    save_safetensors(out, path)
    print(f"{path}: {len(out)} tensors")


if __name__ == "__main__":
    main()
