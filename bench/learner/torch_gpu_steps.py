"""Rows of D4PG steps in PyTorch on one batch that lies in the GPU's memory, for the rivals of learner and pixels."""
import pathlib
import sys

import torch

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1])]
import gpu_rows
import gpu_sizes as sizes
import torch_d4pg
import torch_forms


def options(observation_size):
    return torch_d4pg.Options(
        observation_size=observation_size,
        action_size=sizes.ACTIONS,
        policy_layers=sizes.POLICY_LAYERS,
        critic_layers=sizes.CRITIC_LAYERS,
    )


def print_rows(row, make_learner, batch):
    """Rows `row` and row_tf32: steps of new learners on `batch`."""
    for tf32 in (False, True):
        torch_forms.allow_tf32(tf32)
        learner = None

        def make(compiler):
            nonlocal learner
            torch.manual_seed(1)
            with torch_forms.DEVICE:
                learner = make_learner()
            return learner.compile(compiler)

        def measure(steps):
            def call():
                steps()
                learner.count(sizes.STEPS)

            value = gpu_rows.rate(call, sizes.STEPS, torch_forms.wait)
            assert torch.isfinite(learner.update(batch)).all()
            return value

        value, version = torch_forms.fastest(make, [(batch,)] * sizes.STEPS, measure)
        gpu_rows.report(row + "_tf32" * tf32, value, "steps/s", version)
