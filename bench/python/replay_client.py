#!/usr/bin/env python3
"""`troupe.ReplayClient`, by the wheel that python/build_wheel.sh makes: batches of 256 one-step transitions of cheetah-run from
the replay of a run on this host, over its link (TLS 1.3 on loopback; such a batch is too small for shared memory), one call at
a time; client_prioritized_256 also sets new priorities for each batch. The run's learner sleeps and its env actor waits for
the limiter, so the processors are replay's and the client's."""
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from wheel_rows import main, per_second, report

BATCH, SECONDS, PATIENCE_S = 256, 4, 60
# About a thousand items, of each of which a million may be drawn.
SETTINGS = ["env=cheetah-run", "algorithm=td3", "learner.kind=sleeper", "actors.count=1", "max_env_steps=0", "replay.external=true", "replay.min_items=1000",
            "replay.samples_per_insert=1000000", "replay.tolerance=0.001"]


def program():
    import troupe

    class Sleeper(troupe.Learner):
        """Learns nothing"""

        def __init__(self, keys, agent):
            self.shapes = agent.policy

        def learn(self, batch):
            time.sleep(10)

        def policy(self):
            import numpy as np

            return {name: np.zeros(shape) for name, shape in self.shapes.items()}

    return troupe.Program(learners={"sleeper": Sleeper})


def measure():
    import numpy as np

    import troupe

    for sampler in ("uniform", "prioritized"):
        with tempfile.TemporaryDirectory() as folder:
            empty, directory = pathlib.Path(folder, "empty.toml"), pathlib.Path(folder, "run")
            empty.touch()
            words = [word for setting in [*SETTINGS, f"replay.sampler={sampler}"] for word in ("--set", setting)]
            log = pathlib.Path(folder, "log.txt")
            run = subprocess.Popen([sys.executable, __file__, "train", empty, "--processes", "--run-dir", directory, *words], stdin=subprocess.DEVNULL,
                                   stdout=log.open("w"), stderr=subprocess.STDOUT)
            try:
                deadline = time.monotonic() + PATIENCE_S
                while not (directory / "chief.json").exists():
                    if run.poll() is not None or time.monotonic() > deadline:
                        sys.exit(f"the run did not begin: {log.read_text()}")
                    time.sleep(0.1)
                with troupe.ReplayClient(run=directory, program=program()) as client:
                    priorities = np.random.default_rng(1).uniform(size=BATCH)
                    client.sample(BATCH, timeout=PATIENCE_S)
                    if sampler == "uniform":
                        report("client_sample_256", per_second(lambda: client.sample(BATCH), BATCH, 20, SECONDS), "items/s")
                    else:
                        report("client_prioritized_256",
                               per_second(lambda: client.update_priorities(client.sample(BATCH).keys, priorities), BATCH, 20, SECONDS), "items/s")
            finally:
                run.send_signal(signal.SIGTERM)
                run.wait(PATIENCE_S)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        raise SystemExit(program().main())
    main(measure, __file__)
