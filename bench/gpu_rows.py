"""What the rivals on a GPU share: the device, rows, rates. Needs neither PyTorch nor JAX.

With TROUPE_BENCH_TRIAL=1 everything is tiny, rows are called trial_..., and rivals run on the processor: it shows on any
machine that the scripts work.
"""
import json
import os
import statistics
import time

TRIAL = os.environ.get("TROUPE_BENCH_TRIAL") == "1"
DEVICE = "cpu" if TRIAL else os.environ["TROUPE_BENCH_DEVICE"]  # "cuda:0"
SECONDS = 0.2 if TRIAL else float(os.environ.get("TROUPE_BENCH_SECONDS", "3"))


def tiny(real, trial):
    return trial if TRIAL else real


def report(name, value, unit, version):
    row = {"name": f"trial_{name}" if TRIAL else name, "value": value, "unit": unit, "version": version}
    print(json.dumps(row), flush=True)


def rate(call, each, wait, calls_between=20):
    """Units a second of `call`, which handles `each` at once, the median of five parts of the row's time; `wait` returns
    when all that was begun is done."""
    for _ in range(3):
        call()
    wait()
    rates = []
    for _ in range(5):
        calls, start, spent = 0, time.perf_counter(), 0
        while spent < SECONDS / 5:
            for _ in range(calls_between):
                call()
            wait()
            calls += calls_between
            spent = time.perf_counter() - start
        rates.append(each * calls / spent)
    return statistics.median(rates)
