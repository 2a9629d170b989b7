#!/usr/bin/env python3
"""What it costs to look on: env steps per second of a run of cartpole-swingup while a page is open in no browser but on a
stream of its own, Prometheus scrapes each second and a tracker follows, in ratio to the same run alone, the two in turn
within one call and medians of each; and the page of a run of 1,000 instances whose metrics.csv has 1 GB: its first picture,
the memory that it takes, and the frames per second of a headless Chromium (which draws without a GPU) while it updates.

    python3 bench/apps/page.py [--turns 5] [--seconds 60]
"""

import argparse
import http.client
import itertools
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/page"))
from browser import PROGRAM, Browser, Watch, missing, wait_until  # noqa: E402
from recorded import instance, make_run, write_status  # noqa: E402

TRACK_PYTHON = subprocess.run([ROOT / "tools/python_env.sh", "--find", "track"], capture_output=True, text=True, check=True).stdout.strip()


def row(name, value, unit, **limits):
    print(json.dumps({"name": name, "value": value, "unit": unit, "version": "", "limits": limits}), flush=True)


def stream(watch):
    """An open page, as far as the server can tell: yields its events."""
    connection = http.client.HTTPConnection("127.0.0.1", watch.port, timeout=30)
    connection.request("GET", watch.link.split(str(watch.port), 1)[1])
    cookie = connection.getresponse().headers["Set-Cookie"].split(";")[0]
    connection.close()
    connection.request("GET", "/api/live?run=0", headers={"Cookie": cookie})
    answer = connection.getresponse()
    while line := answer.readline():
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


def steps_per_s(folder, seconds, looked_at):
    """Of one run, after its first ten seconds, in which everybody begins."""
    run = folder / ("looked_at" if looked_at else "alone")
    train = subprocess.Popen([PROGRAM, "train", "cartpole_swingup", "--run-dir", run, "--quiet", "--max-minutes", str(seconds / 60)])
    others, ends = [], threading.Event()
    if looked_at:
        wait_until((run / "status.json").exists, "run")
        port = 9464
        watch = Watch(run, "--token", folder / "token", "--prometheus", f"127.0.0.1:{port}")
        secret = (folder / "token").read_text().strip()

        def read():
            for _ in stream(watch):
                if ends.is_set():
                    return

        def scrape():
            while not ends.wait(1):
                request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {secret}"})
                urllib.request.urlopen(request, timeout=10).read()

        others = [threading.Thread(target=read, daemon=True), threading.Thread(target=scrape, daemon=True)]
        for other in others:
            other.start()
        tracker = subprocess.Popen([TRACK_PYTHON, ROOT / "python/troupe/track.py", run, "--to", "trackio"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
    train.wait()
    ends.set()
    if looked_at:
        watch.end()
        tracker.terminate()
        tracker.wait()
    rows = [line.split(",") for line in (run / "metrics.csv").read_text().splitlines()[1:]]
    (first, *_), last = [one for one in rows if float(one[0]) > 10], rows[-1]
    return (int(last[1]) - int(first[1])) / (float(last[0]) - float(first[0]))


def big_run(folder, instances=1000, megabytes=1000):
    """A run of many roles' numbers over days."""
    run = make_run(folder, "big")
    columns = [f"role{i // 8}/value_{i % 8}" for i in range(96)] + ["actor/steps_per_s", "learner/steps_per_s"]
    head = "wall_s,env_steps,learner_steps," + ",".join(columns) + "\n"
    cells = ",".join(f"{i + 0.123456:.6f}" for i in range(len(columns)))
    with open(run / "metrics.csv", "w") as file:
        file.write(head)
        written, n = len(head), 0
        while written < megabytes * 1e6:
            chunk = "".join(f"{n + i},{100 * (n + i)},{10 * (n + i)},{cells}\n" for i in range(1000))
            file.write(chunk)
            written, n = written + len(chunk), n + 1000
    ports = [{"name": name, "direction": way, "depth": 1, "frames": 1, "bytes": 1, "waited_s": 1, "frames_per_s": 10, "bytes_per_s": 1e4}
             for name, way in (("in", "in"), ("out", "out"), ("parameters", "in"), ("episodes", "out"))]
    write_status(run, [instance("actor", i, ports=ports, version=i, idle_s=i / 100, waits_for="out") for i in range(instances - 1)] +
                 [instance("learner", ports=ports)],
                 channels=[{"from": "actor", "from_port": "out", "to": "learner", "to_port": "in", "kind": "stream", "capacity": 4}],
                 waits=[f"actor-{i} waits {i / 100} s on out: learner" for i in range(50, instances - 1)])
    return run


def grows(run, ends):
    """Goes on with a run's files, a row each second, until somebody says that it ends."""
    status = json.loads((run / "status.json").read_text())
    with open(run / "metrics.csv", "rb") as file:
        file.seek(-8192, 2)
        last = file.read().decode().splitlines()[-1].split(",")
    for n in itertools.count(int(last[0]) + 1):
        with open(run / "metrics.csv", "a") as file:
            file.write(",".join([str(n), str(100 * n), str(10 * n), *last[3:]]) + "\n")
        (run / "status.new").write_text(json.dumps(status | {"written_unix_s": time.time()}))
        (run / "status.new").rename(run / "status.json")
        if ends.wait(1):
            return


def in_a_browser(run, seconds=10):
    """How soon the first picture is there, in a browser that is open, and frames per second from then on."""
    ends = threading.Event()
    writer = threading.Thread(target=grows, args=(run, ends))
    writer.start()
    watch, browser = Watch(run), Browser()
    try:
        browser.open("about:blank")
        time.sleep(2)
        begun = time.monotonic()
        browser.open(watch.link)
        wait_until(lambda: browser.ticks() >= 1, "picture")
        first_s = time.monotonic() - begun
        wait_until(lambda: browser.ticks() >= 3, "updates")
        browser.run("window.drawn = 0; const draw = () => { ++window.drawn; requestAnimationFrame(draw); }; draw();"
                    "window.begun = performance.now();")
        ticks = browser.ticks()
        time.sleep(seconds)
        frames_per_s = browser.run("return window.drawn / (performance.now() - window.begun) * 1000")
        assert browser.ticks() - ticks >= seconds - 2, "it did not update"
        return first_s, frames_per_s
    finally:
        ends.set()
        writer.join()
        browser.end()
        watch.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if TRACK_PYTHON and given.turns > 0:
            alone, looked_at = [], []
            for turn in range(given.turns):
                for at in (False, True) if turn % 2 == 0 else (True, False):
                    inner = folder / f"{turn}-{at}"
                    inner.mkdir()
                    (looked_at if at else alone).append(steps_per_s(inner, given.seconds, at))
                    print(f"turn {turn + 1}, {'looked at' if at else 'alone'}: {(looked_at if at else alone)[-1]:.0f} env steps/s",
                          file=sys.stderr, flush=True)
            row("run_looked_at_takes", statistics.median(alone) / statistics.median(looked_at), "times as long as alone", limit=1.01)
        run = big_run(folder)
        watch = Watch(run)
        begun = time.monotonic()
        events = stream(watch)
        first = next(events)
        row("first_picture_of_1_gb_and_1000_instances", time.monotonic() - begun, "s", limit=1.0)
        assert len(first["metrics"]["columns"][0]) > 500 and first["seen"]["instances_count"] == 1000
        for _ in range(5):
            next(events)
        row("memory_of_it", watch.rss_mb(), "MB", limit=300)
        watch.end()
        if not missing():
            first_s, frames_per_s = in_a_browser(run)
            row("first_picture_in_a_browser", first_s, "s", limit=1.0)
            row("time_of_a_frame", 1000 / frames_per_s, "ms", limit=1000 / 60)


if __name__ == "__main__":
    main()
