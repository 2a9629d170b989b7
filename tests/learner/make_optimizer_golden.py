#!/usr/bin/env python3
"""Writes golden/optimizers.safetensors: trajectories of PyTorch's optimisers and schedules, in float64.

The gradient at w is pull * (w - goal), as in optimizer_test.cpp, which replays each case. Schedules with a warm-up are
LambdaLR or SequentialLR as PyTorch's reference training scripts build them, so that both sides say it in their own way.

Two rules are not PyTorch's and are written down here: TensorFlow's RMSProp as the kernel ApplyRMSProp and the class
tf.compat.v1.train.RMSPropOptimizer have it, and LARS as You et al. 2017, Alg. 1, around PyTorch's SGD.

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


class TensorFlowRmsProp(torch.optim.Optimizer):
    """epsilon inside of the root, mean squares that start at 1, the learning rate inside of the momentum."""

    def __init__(self, params, lr, decay, momentum=0.0, eps=1e-10):
        super().__init__(params, {"lr": lr, "decay": decay, "momentum": momentum, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                state = self.state[w]
                square = state.setdefault("square", torch.ones_like(w))
                momentum = state.setdefault("momentum", torch.zeros_like(w))
                square += (w.grad * w.grad - square) * (1 - group["decay"])
                momentum.mul_(group["momentum"]).add_(group["lr"] * w.grad / torch.sqrt(square + group["eps"]))
                w -= momentum


class Lars(torch.optim.SGD):
    """SGD of rate 1 on gradients that have the global and the local rate in them."""

    def __init__(self, params, lr, momentum, weight_decay, trust_coefficient):
        super().__init__(params, lr=lr, momentum=momentum)
        self.decay, self.trust = weight_decay, trust_coefficient

    @torch.no_grad()
    def step(self):
        rates = [group["lr"] for group in self.param_groups]
        for group in self.param_groups:
            for w in group["params"]:
                local = self.trust * w.norm() / (w.grad.norm() + self.decay * w.norm())
                w.grad = group["lr"] * local * (w.grad + self.decay * w)
            group["lr"] = 1.0
        super().step()
        for group, rate in zip(self.param_groups, rates):
            group["lr"] = rate


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
    "rmsprop": (lambda p: torch.optim.RMSprop(p, lr=0.05, alpha=0.9, eps=1e-3), None),
    "rmsprop_momentum_linear": (
        lambda p: torch.optim.RMSprop(p, lr=0.02, alpha=0.8, eps=1e-2, momentum=0.7, weight_decay=0.1),
        lambda o: warm_up(o, 5, lr_scheduler.LinearLR(o, start_factor=1.0, end_factor=0.25, total_iters=15))),
    "rmsprop_tf": (lambda p: TensorFlowRmsProp(p, lr=0.05, decay=0.9, eps=1e-2), None),
    "rmsprop_tf_momentum_linear": (
        lambda p: TensorFlowRmsProp(p, lr=0.02, decay=0.8, eps=1e-2, momentum=0.7),
        lambda o: warm_up(o, 5, lr_scheduler.LinearLR(o, start_factor=1.0, end_factor=0.25, total_iters=15))),
    "lars": (lambda p: Lars(p, lr=2.0, momentum=0.8, weight_decay=0.05, trust_coefficient=0.02), None),
    "lars_cosine": (
        lambda p: Lars(p, lr=1.0, momentum=0.9, weight_decay=0.1, trust_coefficient=0.03),
        lambda o: warm_up(o, 4, lr_scheduler.CosineAnnealingLR(o, T_max=16, eta_min=0.1))),
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
