#!/usr/bin/env python3
"""Ray actors on one machine: rival of bench/actors/actors_bench.cpp, from actor to actor.

Ray runs every actor in a process of its own; large values pass through its object store in shared memory. Frames are
pipelined with four more under way than taken, as on the other side; none or sixteen made Ray slower.
"""
import collections
import json
import os
import time

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import numpy as np
import ray

FRAME_BYTES, CACHE_LINE = 1 << 20, 64
CALL_SECONDS, FRAME_SECONDS, FRAMES_AHEAD = 5.0, 8.0, 4


@ray.remote
class Echo:
    def answer(self, number):
        return number


@ray.remote
class Asker:
    def rate(self, echo):
        """Round trips per second, one call at a time."""
        for number in range(50):
            ray.get(echo.answer.remote(number))
        calls, start = 0, time.perf_counter()
        while time.perf_counter() - start < CALL_SECONDS:
            assert ray.get(echo.answer.remote(calls)) == calls
            calls += 1
        return calls / (time.perf_counter() - start)


@ray.remote
class Summer:
    def sum(self, frame, stride):
        return int(frame[::stride].sum(dtype=np.int64))


@ray.remote
class Filler:
    def rate(self, summer, filled):
        """Frames of 1 MiB per second, each with a new value, in all of it or at both ends, read on another core."""
        stride = CACHE_LINE if filled else FRAME_BYTES - CACHE_LINE
        lines = -(-FRAME_BYTES // stride)
        frame = np.zeros(FRAME_BYTES, np.uint8)
        under_way, frames, done = collections.deque(), 0, 0
        start = None
        while start is None or time.perf_counter() - start < FRAME_SECONDS:
            value = frames % 256
            if filled:
                frame.fill(value)
            else:
                frame[0] = frame[stride] = value
            answer = summer.sum.remote(frame, stride)  # copies the frame into the object store
            under_way.append((value * lines, answer))
            frames += 1
            if len(under_way) > FRAMES_AHEAD:
                expected, answer = under_way.popleft()
                assert ray.get(answer) == expected
                done += 1
                if done == 20:
                    start = time.perf_counter()
        return (done - 20) / (time.perf_counter() - start)


def report(name, value, unit):
    print(json.dumps({"name": name, "value": value, "unit": unit, "version": ray.__version__}), flush=True)


def main():
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    report("request_reply", ray.get(Asker.remote().rate.remote(Echo.remote())), "round trips/s")
    report("frame_1_mib", ray.get(Filler.remote().rate.remote(Summer.remote(), False)), "frames/s")
    report("frame_1_mib_filled", ray.get(Filler.remote().rate.remote(Summer.remote(), True)), "frames/s")
    ray.shutdown()


if __name__ == "__main__":
    main()
