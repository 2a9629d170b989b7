#!/usr/bin/env python3
"""torch.distributed with Gloo between processes of one host: rival of bench/collectives/collectives_bench.cpp.

One process for each rank, one thread each, loopback; an all-reduce is in place and synchronous. Rounds as in rows.hpp.
"""
import datetime
import json
import os
import tempfile
import time

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

ROW_SECONDS = 0.3
SIZES = {"4_kib": 4 << 10, "64_kib": 64 << 10, "1_mib": 1 << 20, "4_mib": 4 << 20, "25_mb": 25_000_000, "100_mb": 100_000_000}


def measure(rank, count):
    """Megabytes of one rank's values per second."""
    values, flag = torch.zeros(count), torch.zeros(1)
    for _ in range(3):
        dist.all_reduce(values)
    all_s, calls = 0.0, 1
    while True:
        begin = time.perf_counter()
        for _ in range(calls):
            dist.all_reduce(values)
        took = time.perf_counter() - begin
        all_s += took
        flag[0] = float(rank == 0 and all_s < ROW_SECONDS)
        dist.all_reduce(flag)
        if flag[0] == 0:
            return count * 4 / 1e6 / (took / calls)
        calls *= 2


def run(rank, ranks, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{store}", datetime.timedelta(seconds=60), ranks, rank)
    for size, size_bytes in SIZES.items():
        rate = measure(rank, size_bytes // 4)
        if rank == 0:
            row = {"name": f"processes_{ranks}_{size}", "value": rate, "unit": "MB/s", "version": torch.__version__}
            print(json.dumps(row), flush=True)
    dist.destroy_process_group()


def main():
    with tempfile.TemporaryDirectory() as folder:
        for ranks in (2, 3, 4):
            mp.spawn(run, (ranks, os.path.join(folder, f"store{ranks}")), ranks)


if __name__ == "__main__":
    main()
