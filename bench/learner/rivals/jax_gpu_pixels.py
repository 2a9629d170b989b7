#!/usr/bin/env python3
"""The D4PG learner step from images in JAX on a GPU: rival of bench/learner/pixels_gpu_bench.cpp."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import jax_gpu_steps as steps

if __name__ == "__main__":
    sizes = steps.sizes
    options = steps.options(
        observation_size=sizes.FEATURES,
        image=(sizes.SIDE, sizes.SIDE, sizes.CHANNELS),
        filters=sizes.FILTERS,
        convolutions=sizes.CONVOLUTIONS,
    )
    steps.print_rows("pixels_step", options)
