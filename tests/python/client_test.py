"""The installed wheel: the replay of a run over processes, shared by programs outside of it."""
import pathlib
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import numpy as np

import troupe
from troupe.cli import PROGRAM

# A run whose own actors and learner do next to nothing: the table is the client's.
IDLE = ["env=cartpole-swingup", "algorithm=td3", "td3.policy_layers=[8]", "td3.critic_layers=[8]", "td3.random_env_steps=50", "learner.batch_size=4",
        "replay.min_items=64", "replay.samples_per_insert=1", "replay.tolerance=100", "replay.max_items=100000", "actors.count=1", "evaluator.episodes=1",
        "evaluator.every_learner_steps=1000000", "max_env_steps=0", "checkpoint.every_s=2", "placement.actors.nodes=0", "placement.learner.nodes=0",
        "placement.parameters.nodes=0", "placement.evaluator.nodes=0"]


def rows(count, first=0):
    column = np.arange(first, first + count, dtype=np.float32)
    return {"observation": np.repeat(column[:, None], 5, 1), "action": column[:, None] / 1e6, "reward": column, "discount": np.ones(count),
            "next_observation": np.repeat(column[:, None], 5, 1)}


class Run:
    """`troupe train --processes`, ended with the test. Its env actor waits for the limiter all the time, so that it goes on."""

    def __init__(self, test, *settings):
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.directory = self.folder / "run"
        (self.folder / "empty.toml").touch()
        words = [word for setting in [*IDLE, "replay.external=true", *settings] for word in ("--set", setting)]
        self.log = (self.folder / "out.txt").open("w+")
        self.process = subprocess.Popen([PROGRAM, "train", self.folder / "empty.toml", "--processes", "--run-dir", self.directory, *words], cwd=self.folder,
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        test.addCleanup(self.end)
        deadline = time.monotonic() + 60
        while not (self.directory / "chief.json").exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                test.fail(self.said())
            time.sleep(0.05)

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def troupe(self, *words, expect=0):
        done = subprocess.run([PROGRAM, *words], cwd=self.folder, capture_output=True, text=True, timeout=60)
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout + done.stderr

    def token(self, name):
        self.troupe("token", self.directory, "--role", "external", "--output", self.folder / name)
        return self.folder / name

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        finally:
            self.process.kill()
            self.log.close()


class Clients(unittest.TestCase):
    def test_inserts_draws_and_sets_priorities(self):
        run = Run(self, "replay.sampler=prioritized", "replay.priority_exponent=1", "replay.min_items=100")
        with troupe.ReplayClient(run.directory / "config.toml", token=run.token("first.token")) as client:
            self.assertEqual(client.columns["observation"], ("float32", (5,)))
            for first in range(1000, 3000, 100):
                client.insert(rows(100, first), np.full(100, 50.0), timeout=30)
            batch = client.sample(512, timeout=30)
            self.assertEqual(batch.data["observation"].shape, (512, 5))
            ours = batch.data["reward"] >= 1000
            self.assertGreater(ours.mean(), 0.8)  # priority 50 against 1 of the env actor's
            np.testing.assert_array_equal(batch.data["observation"][ours, 3], batch.data["reward"][ours])
            self.assertGreater(batch.table_size, 2000)
            self.assertTrue((batch.probabilities > 0).all() and (batch.times_sampled >= 1).all())
            batch.data["reward"][:] = 0  # the caller's
            np.testing.assert_array_equal(np.from_dlpack(batch.data["action"]), batch.data["action"])
            # All of ours but one to 0: then that one is nearly all that is drawn.
            keys, at = np.unique(batch.keys, return_index=True)
            priorities = np.zeros(len(keys))
            chosen = keys[np.flatnonzero(ours[at])[0]]
            priorities[keys == chosen] = 1e9
            client.update_priorities(keys, priorities, timeout=30)
            deadline = time.monotonic() + 30
            while (client.sample(256, timeout=30).keys == chosen).mean() < 0.9:
                self.assertLess(time.monotonic(), deadline)
                client.update_priorities(keys, priorities, timeout=30)  # the run's learner had it, and set another one
            status = run.troupe("status", run.directory)
            self.assertIn("external-0", status)
        self.assertIsNone(run.process.poll(), "the run goes on without its client")

    def until_nothing_is(self, client, what):
        """Draws from both shards, which hear of it each in its own time."""
        deadline, clean = time.monotonic() + 30, 0
        while clean < 8:
            self.assertLess(time.monotonic(), deadline)
            clean = 0 if what(client.sample(256, timeout=30)).any() else clean + 1

    def test_items_leave_when_it_says_so(self):
        run = Run(self, "replay.sampler=prioritized", "replay.priority_exponent=1", "replay.durability=off", "replay.shards=2")
        with troupe.ReplayClient(run=run.directory) as client:
            for first in range(1000, 3000, 100):
                client.insert(rows(100, first), np.full(100, 50.0), timeout=30)
            batch = client.sample(64, timeout=30)
            gone = np.unique(batch.keys)
            client.delete(gone, timeout=30)
            client.delete(gone, timeout=30)  # passed over
            self.until_nothing_is(client, lambda batch: np.isin(batch.keys, gone))
            before = client.info(timeout=30)
            self.assertGreaterEqual(before["inserts"], 2000)
            self.assertGreaterEqual(before["samples"], 64)
            self.assertGreaterEqual(before["evictions"], len(gone))
            self.assertGreater(before["bytes"], 0)
            client.reset(timeout=30)
            deadline = time.monotonic() + 30
            while client.info(timeout=30)["items"] >= before["items"]:
                self.assertLess(time.monotonic(), deadline)
            client.insert(rows(200, 5000), np.full(200, 50.0), timeout=30)
            self.until_nothing_is(client, lambda batch: (batch.data["reward"] >= 1000) & (batch.data["reward"] < 3000))
            with self.assertRaisesRegex(troupe.TroupeError, "delete: key .* is of no batch"):
                client.delete([2**63])

    def test_several_threads_and_clients_share_one_table(self):
        run = Run(self)
        clients = [troupe.ReplayClient(run=run.directory, name=f"client-{i}") for i in range(2)]
        errors = []

        def work(client, first):
            try:
                for k in range(20):
                    client.insert(rows(50, first + 50 * k), timeout=30)
                    batch = client.sample(32, timeout=30)
                    assert batch.data["reward"].shape == (32,)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(client, 10_000 * (i + 1))) for i, client in enumerate([*clients, clients[0]])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        self.assertEqual(errors, [])
        seen = np.unique(np.concatenate([clients[1].sample(1024, timeout=30).data["reward"] for _ in range(4)]) // 10_000)
        self.assertLessEqual({1.0, 2.0, 3.0}, set(seen.tolist()))
        for client in clients:
            client.close()
        with self.assertRaises(troupe.TroupeError):
            clients[0].sample(1)

    def test_more_rows_than_the_limiter_admits_at_once_come_in_in_turns_with_the_runs_own(self):
        run = Run(self)
        with troupe.ReplayClient(run=run.directory) as client:
            inserted = threading.Thread(target=client.insert, args=(rows(2000, 1000),), kwargs={"timeout": 60})
            inserted.start()
            deadline, seen = time.monotonic() + 60, set()
            while inserted.is_alive() or max(seen, default=0) < 2999:
                self.assertLess(time.monotonic(), deadline)
                seen |= set(client.sample(64, timeout=30).data["reward"].tolist())
            inserted.join()
            self.assertTrue(any(reward < 1000 for reward in seen), "the env actor's, too")
            begun = time.monotonic()
            with self.assertRaisesRegex(TimeoutError, r"\(\d+ of 100000 rows were sent\)"):
                client.insert(rows(100_000), timeout=0.5)  # as nobody samples enough
            self.assertLess(time.monotonic() - begun, 5)

    def test_what_is_wrong_is_said(self):
        run = Run(self, "replay.max_items=5000000", "replay.min_items=4900000", "replay.tolerance=0.1")  # so that nothing is drawn
        token = run.token("t.token")
        with troupe.ReplayClient(run.directory / "config.toml", token=token) as client:
            for change, said in (({"reward": np.zeros(3)}, r"reward has shape \(3,\), expected \(2,\)"), ({"other": np.zeros(2)}, "unknown columns")):
                with self.assertRaisesRegex(troupe.TroupeError, said):
                    client.insert(rows(2) | change)
            with self.assertRaisesRegex(troupe.TroupeError, "reward has numbers that are not finite"):
                client.insert(rows(2) | {"reward": [0, np.nan]})
            with self.assertRaisesRegex(troupe.TroupeError, r"priorities have shape \(3,\), expected \(2,\)"):
                client.insert(rows(2), [1, 1, 1])
            with self.assertRaisesRegex(troupe.TroupeError, "env_steps is -1, expected 0 or more"):
                client.insert(rows(2), env_steps=-1)
            with self.assertRaisesRegex(troupe.TroupeError, "priority -1"):
                client.insert(rows(2), [1, -1])
            with self.assertRaisesRegex(troupe.TroupeError, "got 0 rows"):
                client.sample(0)
            with self.assertRaisesRegex(troupe.TroupeError, "is of no batch"):
                client.update_priorities(np.array([2**60], np.uint64), [1.0])
            for call in (lambda: client.delete([0]), client.reset):
                with self.assertRaisesRegex(troupe.TroupeError, 'replay.durability is "auto", and a journal has no record'):
                    call()
            with self.assertRaisesRegex(TimeoutError, "replay did not give a batch within 0.3 s"):
                client.sample(8, timeout=0.3)
            with self.assertRaisesRegex(troupe.TroupeError, "refuses to draw 1000000 rows"):
                client.sample(1_000_000, timeout=30)
        with self.assertRaisesRegex(troupe.TroupeError, "used"):
            troupe.ReplayClient(run.directory / "config.toml", token=token, directory=run.folder / "elsewhere")
        with troupe.ReplayClient(run.directory / "config.toml", token=token) as again:  # by the certificate that it was traded for
            again.insert(rows(2), timeout=30)
        other = run.folder / "other.toml"
        other.write_text((run.directory / "config.toml").read_text().replace("seed = 1", "seed = 2"))
        with self.assertRaisesRegex(troupe.TroupeError, "TRP-E162"):
            troupe.ReplayClient(other, token=run.token("o.token"))
        with self.assertRaisesRegex(troupe.TroupeError, "expected either a token or a run's folder"):
            troupe.ReplayClient("config.toml")

    def test_a_run_without_clients_says_so(self):
        run = Run(self, "replay.external=false")
        with self.assertRaisesRegex(troupe.TroupeError, "replay.external is false"):
            troupe.ReplayClient(run=run.directory)
        self.assertIn("--role", run.troupe("token", run.directory, "--role", "external", expect=1))


if __name__ == "__main__":
    unittest.main()
