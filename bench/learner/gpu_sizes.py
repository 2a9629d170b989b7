"""Sizes of the rows of the learner and pixels benches with --device, for both rivals: those of learner_gpu_bench.cpp and
pixels_gpu_bench.cpp."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from gpu_rows import tiny  # noqa: E402

OBSERVATION, ACTIONS = tiny(17, 5), tiny(6, 2)
BATCH = tiny(256, 8)
POLICY_LAYERS, CRITIC_LAYERS = tiny((256, 256, 256), (16, 16)), tiny((512, 512, 256), (16, 16))
STEPS = tiny(20, 2)  # begun at once; the target period is a multiple of it
LAUNCHES = (1, tiny(16, 2))  # steps that are begun at once with replay on the host

# Of the torso: DrQ's (Yarats et al. 2021, arXiv 2004.13649).
SIDE, CHANNELS = tiny(84, 20), 9
CONVOLUTIONS, FILTERS, FEATURES = 4, tiny(32, 4), tiny(50, 6)

ITEMS = tiny(1_000_000, 2_000)  # in replay on the host
PRIORITY_EXPONENT, IMPORTANCE_EXPONENT = 0.6, 0.4
