#!/usr/bin/env python3
"""JAX, rival of bench/learner/pjrt_bench.cpp: a small call and training steps on the processor, from the host's inputs
to the host's results, and a compilation for TPUs that are not there.

    jax_pjrt.py [ROW...]    all rows unless some are named

XLA's thread pool takes its size from the processor affinity at start, so every row has a process of its own.
compile_resnet50 needs libtpu.so: that of TPU_LIBRARY_PATH, else the newest that tools/bootstrap.sh has fetched; without
one it is left out. TROUPE_BENCH_TRIAL=1 makes everything tiny.
"""
import glob
import json
import multiprocessing
import os
import pathlib
import statistics
import sys
import time

TRIAL = bool(os.environ.get("TROUPE_BENCH_TRIAL"))
RESNET50 = {"batch": 8, "size": 32, "filters": 4} if TRIAL else {"batch": 8}
SNGAN = {"batch": 64, "generator_width": 8, "discriminator_width": 8} if TRIAL else {"batch": 64}
TOPOLOGY = "v5e:2x2"


def seconds(real):
    return 0.2 if TRIAL else real


def rate(call, at_once, measured):
    """Calls per second, at_once of them between two looks at the clock, over `measured` seconds after a warm-up."""
    for _ in range(2 * at_once):
        call()
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < measured:
        for _ in range(at_once):
            call()
        calls += at_once
    return calls / (time.perf_counter() - start)


def small_call():
    import jax
    import numpy as np

    x, add_one = np.ones(8, np.float32), jax.jit(lambda x: x + 1)
    return rate(lambda: np.asarray(add_one(x)), 100, seconds(3.0)), "calls/s"


def d4pg_step():
    import jax
    import jax_d4pg
    import numpy as np

    generator, options = np.random.default_rng(1), jax_d4pg.Options(17, 6)
    state = jax_d4pg.initial_state(options, generator)
    batch = {name: np.array(column) for name, column in jax_d4pg.random_batch(options, generator).items()}
    compiled, td_error = jax.jit(jax_d4pg.make_step(options), donate_argnums=0), None

    def call():
        nonlocal state, td_error
        state, td_error = compiled(state, batch)
        td_error = np.asarray(td_error)

    value = rate(call, 10, seconds(4.0))
    assert np.isfinite(td_error).all()
    return value, "steps/s"


def steps_per_second(state, batch, step):
    """The median over at least three steps, after one that warms up."""
    import jax
    import numpy as np

    compiled, times, loss = jax.jit(step, donate_argnums=0), [], None
    state, loss = compiled(state, batch)
    np.asarray(loss)
    while sum(times) < seconds(15.0) or len(times) < 3:
        begin = time.perf_counter()
        state, loss = compiled(state, batch)
        loss = np.asarray(loss)
        times.append(time.perf_counter() - begin)
    assert np.isfinite(loss).all()
    return 1 / statistics.median(times)


def sngan_step():
    import jax_images

    return steps_per_second(*jax_images.make_sngan(**SNGAN)), "steps/s"


def resnet50_step():
    import jax_images

    return RESNET50["batch"] * steps_per_second(*jax_images.make_resnet50(**RESNET50)), "images/s"


def find_libtpu():
    path = os.environ.get("TPU_LIBRARY_PATH")
    if not path:
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        path = max(glob.glob(f"{glob.escape(cache)}/troupe/pjrt-tpu-*/libtpu.so"), default="")
    return path if os.path.isfile(path) else None


def compile_resnet50():
    """Tracing and lowering included, as the graph and its StableHLO are on the other side."""
    path = find_libtpu()
    if path is None:
        return None
    os.environ["TPU_LIBRARY_PATH"] = path
    # libtpu asks the cloud where it is, for minutes, unless it is told.
    for name, value in {
        "TPU_SKIP_MDS_QUERY": "1",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "TPU_LOG_DIR": "disabled",
        "TPU_MIN_LOG_LEVEL": "3",
        "TPU_ACCELERATOR_TYPE": "v5litepod-4",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_WORKER_ID": "0",
    }.items():
        os.environ.setdefault(name, value)
    import jax
    import jax_images
    from jax.experimental import topologies

    device = topologies.get_topology_desc(TOPOLOGY, "tpu").devices[0]
    sharding = jax.sharding.SingleDeviceSharding(device)
    state, batch, step = jax_images.make_resnet50(**RESNET50)
    arguments = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), (state, batch))
    begin = time.perf_counter()
    jax.jit(step, donate_argnums=0).lower(*arguments).compile()
    return 1 / (time.perf_counter() - begin), "compilations/s"


ROWS = {row.__name__: row for row in (small_call, d4pg_step, sngan_step, resnet50_step, compile_resnet50)}


def measure(name):
    """Prints the row, in a process that has not imported JAX yet."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    measured = ROWS[name]()
    if measured is not None:
        import jax

        value, unit = measured
        print(json.dumps({"name": name, "value": value, "unit": unit, "version": jax.__version__}), flush=True)


def main(names):
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        sys.exit(f"jax_pjrt: no rows {' '.join(unknown)}; there are: {' '.join(ROWS)}")
    for name in names or ROWS:
        process = multiprocessing.get_context("spawn").Process(target=measure, args=(name,))
        process.start()
        process.join()
        assert process.exitcode == 0, f"{name}: exit status {process.exitcode}"


if __name__ == "__main__":
    main(sys.argv[1:])
