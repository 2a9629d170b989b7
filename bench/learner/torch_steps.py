"""Rows of the benches of image models in PyTorch: training steps with one and two threads, in float32 and bfloat16."""
import json
import statistics
import time

import torch

SECONDS = 10.0


def steps_per_second(step, threads):
    """The median over at least three steps, after one that warms up."""
    torch.set_num_threads(threads)
    step()
    times = []
    while sum(times) < SECONDS or len(times) < 3:
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return 1 / statistics.median(times)


def print_rows(model, training_step, unit, each=1, only_fp32=False):
    """training_step(bf16): a function that takes a step; each: units in a step. only_fp32: the rows of bfloat16, with
    what a step in float32 reaches."""
    for bf16 in (True,) if only_fp32 else (False, True):
        for threads in (1, 2):
            rate = each * steps_per_second(training_step(bf16 and not only_fp32), threads)
            name = f"{model}{'_bf16' * bf16}_{threads}_thread{'s' * (threads > 1)}"
            print(json.dumps({"name": name, "value": rate, "unit": unit, "version": torch.__version__}), flush=True)
