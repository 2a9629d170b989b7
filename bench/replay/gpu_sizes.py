"""Sizes of the replay bench with --device, for both rivals: those of replay_gpu_bench.cpp."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from gpu_rows import tiny  # noqa: E402

ITEMS = tiny(1 << 20, 1 << 10)  # a million
BATCH, BATCHES = tiny(256, 8), tiny(32, 2)  # batches that are drawn, and given new priorities, at once
COLUMNS = {"observation": 17, "action": 6, "reward": 1, "discount": 1, "next_observation": 17}
PRIORITY_EXPONENT, IMPORTANCE_EXPONENT = 0.6, 0.4
