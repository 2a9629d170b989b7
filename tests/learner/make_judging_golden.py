#!/usr/bin/env python3
"""Writes golden/judging.safetensors: a Frechet distance and an inception score by other means than ours, in float64.

The distance takes the eigenvalues of the product of the covariances itself (not symmetric, torch.linalg.eigvals), where
ours takes those of a symmetric matrix. The second set has fewer rows than features, so its covariance is singular.

Usage: make_judging_golden.py [OUTPUT]   (environment: tools/python_env.sh torch)
"""
import pathlib
import sys

import torch

from make_d4pg_golden import save_safetensors

FEATURES, CLASSES = 12, 5


def frechet_distance(a, b):
    covariance = lambda x: torch.cov(x.T)
    roots = torch.linalg.eigvals(covariance(a) @ covariance(b)).real.clamp(min=0).sqrt().sum()
    return (a.mean(0) - b.mean(0)).square().sum() + covariance(a).trace() + covariance(b).trace() - 2 * roots


def inception_score(logits):
    p = logits.softmax(-1)
    return torch.distributions.kl_divergence(
        torch.distributions.Categorical(probs=p), torch.distributions.Categorical(probs=p.mean(0))).mean().exp()


def main():
    torch.manual_seed(3)
    mix = lambda: torch.randn(FEATURES, FEATURES, dtype=torch.float64)
    a = ((torch.randn(60, FEATURES, dtype=torch.float64) @ mix()).relu() + 3).float().double()
    b = ((torch.randn(9, FEATURES, dtype=torch.float64) @ mix()).relu() + 2).float().double()
    logits = (4 * torch.randn(70, CLASSES, dtype=torch.float64)).float().double()
    out = {"a": a.float(), "b": b.float(), "logits": logits.float(),
           "frechet_distance": frechet_distance(a, b), "inception_score": inception_score(logits)}
    path = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "golden" / "judging.safetensors"
    save_safetensors(out, path)
    print(f"{path}: {len(out)} tensors")


if __name__ == "__main__":
    main()
