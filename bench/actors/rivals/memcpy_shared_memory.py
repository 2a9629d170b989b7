#!/usr/bin/env python3
"""What a transport that copies once could reach: copying the same frame within one thread, which nobody reads.

NumPy copies arrays of bytes by libc's memcpy. The copies reuse one destination, so small frames stay in the cache.
"""
import json
import time

import numpy as np

COPY_SECONDS, WARM_UP = 1.0, 4
ROWS = {"frame_64_kib": 64 << 10, "frame_1_mib": 1 << 20, "frame_16_mib": 16 << 20, "frame_64_mib": 64 << 20}

for name, frame_bytes in ROWS.items():
    source, copy = np.zeros(frame_bytes, np.uint8), np.empty(frame_bytes, np.uint8)
    for _ in range(WARM_UP):
        source.fill(1)
        np.copyto(copy, source)
    batch = max(1, (64 << 20) // frame_bytes)  # so that asking for the time costs nothing
    copies, start = 0, time.perf_counter()
    while time.perf_counter() - start < COPY_SECONDS:
        for _ in range(batch):
            np.copyto(copy, source)
        copies += batch
    rate = copies / (time.perf_counter() - start)
    print(json.dumps({"name": name, "value": rate, "unit": "frames/s", "version": "libc"}), flush=True)
