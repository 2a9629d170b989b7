"""The installed wheel: roles and learners written in Python, in one process and over several."""
import csv
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

import numpy as np

import troupe

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "python" / "examples"
SMALL = ["env=cartpole-swingup", "algorithm=td3", "td3.policy_layers=[8]", "td3.critic_layers=[8]", "td3.random_env_steps=50", "learner.batch_size=8",
         "replay.min_items=40", "replay.samples_per_insert=0.5", "replay.tolerance=1", "actors.count=1", "evaluator.episodes=1", "evaluator.every_learner_steps=1000000",
         "max_env_steps=0", "max_learner_steps=60", "checkpoint.every_s=1", "metrics.every_s=0.05"]


def two_roles(one, other, port, capacity):
    """Roles of kinds of their names, the first of which sends to the second by ports of one name."""
    return f"""
        [roles.{one}]
        kind = "{one}"
        [roles.{other}]
        kind = "{other}"
        [[channels]]
        from = "{one}.{port}"
        to = "{other}.{port}"
        capacity = {capacity}
    """


# Roles that echo what they get in every form that travels: opaque bytes, calls, batches and priorities.
ECHO = """
    import numpy as np
    import troupe

    class Asker(troupe.Role):
        "Asks for squares"
        outlets = {"numbers": troupe.Port("Number", kind="request", answer="Square")}
        keys = {"most": 20, "fails_at": -1}
        completes_run = True
        restart_from_checkpoint = True

        def __init__(self, keys, identity):
            self.most, self.fails_at, self.identity = keys["most"], keys["fails_at"], identity
            self.answers = []

        def answered(self, answer, why):
            assert why is None, why
            self.answers.append(int(answer))

        def step(self, context):
            if len(self.answers) == self.fails_at and self.identity.incarnation == 0:
                raise RuntimeError("as asked for")
            if len(self.answers) >= self.most:
                print("squares", sum(self.answers), "incarnation", self.identity.incarnation, flush=True)
                return troupe.Progress.DONE
            caller = context.caller("numbers")
            if caller.ready:
                caller.call(str(len(self.answers)).encode(), self.answered, timeout=30)
            return None

        def waiting_for(self):
            return "a square"

        def report(self):
            return troupe.Report(counters={"answers": len(self.answers)}, gauges={"last": self.answers[-1] if self.answers else 0})

    class Squarer(troupe.Role):
        "Answers"
        inlets = {"numbers": troupe.Port("Number", kind="request", answer="Square")}

        def step(self, context):
            server = context.server("numbers")
            while (asked := server.take()) is not None:
                number, answer = asked
                answer(str(int(number) ** 2).encode())

    if __name__ == "__main__":
        raise SystemExit(troupe.main(roles={"asker": Asker, "squarer": Squarer}, messages={"Number": 16, "Square": 16}))
"""
ECHO_TOML = two_roles("asker", "squarer", "numbers", capacity=1)

LEARNER = """
    import time
    import numpy as np
    import troupe

    class Constant(troupe.Learner):
        "Gives out what its key says"
        keys = {"value": 0.25, "mistake": "", "order": ""}

        def __init__(self, keys, agent):
            self.value, self.mistake, self.order, self.agent, self.rows = keys["value"], keys["mistake"], keys["order"], agent, 0
            assert agent.batch["observation"][0] == "float32" and agent.batch_size == 8 and agent.max_steps == 60

        def learn(self, batch):
            time.sleep(0.005)  # long enough to be reported
            self.rows += len(batch["reward"])
            batch["reward"] += 1  # the learner's to change
            if self.mistake == "raise":
                raise ValueError("this learner does not learn")
            priorities = np.abs(batch["reward"]) if self.agent.prioritised and self.mistake != "priorities" else None
            return troupe.Step({"rows": self.rows}, priorities)

        def policy(self):
            tensors = {name: np.full(shape, self.value) for name, shape in self.agent.policy.items()}
            if self.order:
                orders = {"rows": np.array, "columns": np.asfortranarray, "back": lambda x: np.flip(np.flip(x).copy()),
                          "apart": lambda x: np.repeat(x, 2, -1)[..., ::2]}
                numbers = [np.cos(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape) for shape in self.agent.policy.values()]
                tensors = dict(zip(self.agent.policy, map(orders[self.order], numbers)))
            if self.mistake == "name":
                tensors["policy/other"] = tensors.popitem()[1]
            if self.mistake == "shape":
                tensors = {name: tensor[..., :1] for name, tensor in tensors.items()}
            return tensors

        def save(self):
            return {"rows": self.rows, "table": np.arange(6.0).reshape(2, 3)}

        def restore(self, state):
            np.testing.assert_array_equal(state["table"], np.arange(6.0).reshape(2, 3))
            self.rows = state["rows"]

    if __name__ == "__main__":
        raise SystemExit(troupe.main(learners={"constant": Constant}))
"""


QUEUE = """
    import troupe

    class Counter(troupe.Role):
        "Counts down"
        outlets = {"numbers": "Number"}

        def __init__(self, keys, identity):
            self.left = 100

        def step(self, context):
            if not context.outlet("numbers").ready:
                return None
            self.left -= 1
            context.outlet("numbers").send(b"%d" % self.left)
            return troupe.Progress.MORE if self.left else troupe.Progress.DONE

    class Reader(troupe.Role):
        "Begins late"
        inlets = {"numbers": "Number"}
        completes_run = True

        def __init__(self, keys, identity):
            self.read, self.begin = [], None

        def step(self, context):
            self.begin = self.begin or context.time + 0.5
            if context.time < self.begin:
                context.wake_after(0.1)
                return None
            while (number := context.inlet("numbers").take()) is not None:
                self.read.append(int(number))
            if len(self.read) < 100:
                return None
            print("read", self.read, flush=True)
            return troupe.Progress.DONE

    if __name__ == "__main__":
        queue = troupe.Queue("Number", priority=int)
        raise SystemExit(troupe.main(roles={"counter": Counter, "reader": Reader, "numbers": queue, "plain": troupe.Queue("Number")}, messages={"Number": 8}))
"""
QUEUE_TOML = """
    [roles.counter]
    kind = "counter"
    [roles.reader]
    kind = "reader"
    [roles.numbers]
    kind = "numbers"
    [[channels]]
    from = "counter.numbers"
    to = "numbers.in"
    [[channels]]
    from = "numbers.out"
    to = "reader.numbers"
    capacity = 1
"""

# What is said of a table's items, from one role to another.
MENTION = """
    import troupe

    class Critic(troupe.Role):
        "Judges items"
        outlets = {"priorities": "Priorities"}

        def step(self, context):
            outlet = context.outlet("priorities")
            if outlet.ready:
                outlet.send(troupe.Priorities([1, 2**63], [0.5, 4], "recent", deletes=[7]))
            if outlet.ready:
                outlet.send(troupe.Priorities([], [], reset=True))
            return troupe.Progress.IDLE

    class Reader(troupe.Role):
        "Reads two"
        inlets = {"priorities": "Priorities"}
        completes_run = True

        def __init__(self, keys, identity):
            self.read = []

        def step(self, context):
            while (said := context.inlet("priorities").take()) is not None:
                self.read.append((said.keys.tolist(), said.priorities.tolist(), said.table, said.deletes.tolist(), said.reset))
            if len(self.read) < 2:
                return None
            print("read", self.read[:2], flush=True)
            return troupe.Progress.DONE

    if __name__ == "__main__":
        raise SystemExit(troupe.main(roles={"critic": Critic, "reader": Reader}))
"""
MENTION_TOML = two_roles("critic", "reader", "priorities", capacity=2)


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def script(self, name, text):
        (self.folder / name).write_text(textwrap.dedent(text))
        return self.folder / name

    def run_program(self, script, *arguments, expect=0):
        done = subprocess.run([sys.executable, "-B", script, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_the_example_runs_in_one_process_and_over_several(self):
        program, config = EXAMPLES / "hello_topology.py", EXAMPLES / "hello_topology.toml"
        for how in ([], ["--processes"]):
            with self.subTest(how):
                said = self.run_program(program, "train", config, "--run-dir", f"run{len(how)}", *how)
                mean = float(re.search(r"mean of 100 measurements: (\S+) degrees", said)[1])
                self.assertAlmostEqual(mean, 21, delta=0.1)  # of 20, 20.5, ... 22 over and over, from two thermometers
        self.run_program(program, "train", config, "--run-dir", "long", "--set", "roles.display.measurements=200000", "--set", "metrics.every_s=0.05")
        self.assertAlmostEqual(self.last("long", "display/mean"), 21, delta=0.1)
        self.assertIn("hello_topology.py", self.run_program(program, "--help"))
        self.assertIn("After which it is done", self.run_program(program, "config", "--explain"))
        self.run_program(program, "graph", config, "-o", "hello.svg")
        self.assertIn("thermometer", (self.folder / "hello.svg").read_text())

    def test_the_example_is_that_of_c_plus_plus(self):
        self.assertEqual((EXAMPLES / "hello_topology.toml").read_text(), (EXAMPLES.parents[1] / "examples" / "hello_topology.toml").read_text())

    def test_calls_are_answered(self):
        program, config = self.script("echo.py", ECHO), self.script("echo.toml", ECHO_TOML)
        for how in ([], ["--processes"]):
            with self.subTest(how):
                said = self.run_program(program, "train", config, "--run-dir", f"run{len(how)}", *how)
                self.assertIn("squares 2470 incarnation 0", said)
        self.run_program(program, "train", config, "--run-dir", "long", "--set", "roles.asker.most=30000", "--set", "metrics.every_s=0.05")
        self.assertGreaterEqual(self.last("long", "asker/answers_per_s"), 0)
        square = int(self.last("long", "asker/last"))
        self.assertEqual(math.isqrt(square) ** 2, square)

    def test_one_that_raises_is_started_again(self):
        program, config = self.script("echo.py", ECHO), self.script("echo.toml", ECHO_TOML)
        said = self.run_program(program, "train", config, "--processes", "--set", "roles.asker.fails_at=5")
        self.assertIn("RuntimeError: as asked for", said)
        self.assertIn("squares 2470 incarnation 1", said)

    def test_what_is_said_of_items_travels(self):
        said = self.run_program(self.script("mention.py", MENTION), "train", self.script("mention.toml", MENTION_TOML))
        self.assertIn(f"read [([1, {2**63}], [0.5, 4.0], 'recent', [7], False), ([], [], '', [], True)]", said)

    def test_queues_give_each_message_once_in_their_order(self):
        program, config = self.script("queue.py", QUEUE), self.script("queue.toml", QUEUE_TOML)
        read = {}
        for order in ("fifo", "lifo", "shuffle", "priority"):
            said = self.run_program(program, "train", config, "--run-dir", order, "--set", f"roles.numbers.order={order}")
            read[order] = [int(number) for number in re.search(r"read \[(.*)\]", said)[1].split(", ")]
            self.assertEqual(sorted(read[order]), list(range(100)))
        self.assertEqual(read["fifo"], list(range(99, -1, -1)))
        # The first two had left before the others were there.
        self.assertEqual(read["lifo"][3:], sorted(read["lifo"][3:]))
        self.assertEqual(read["priority"][3:], sorted(read["priority"][3:]))
        self.assertNotIn(read["shuffle"], (read["fifo"], read["lifo"]))
        said = self.run_program(program, "config", config, "--set", "roles.numbers.capacity=5", "--set", "roles.numbers.min_after_dequeue=5", expect=78)
        self.assertIn("min_after_dequeue: got 5, expected less than capacity, 5", said)
        plain = self.script("plain.toml", QUEUE_TOML.replace('kind = "numbers"', 'kind = "plain"'))
        self.assertIn("expected one of fifo, lifo, shuffle", self.run_program(program, "config", plain, "--set", "roles.numbers.order=priority", expect=78))

    def test_tables_of_shared_steps(self):
        program, config = EXAMPLES / "shared_tables.py", EXAMPLES / "shared_tables.toml"
        for how in ([], ["--processes"]):
            with self.subTest(how):
                run = f"run{len(how)}"
                said = self.run_program(program, "train", config, "--run-dir", run, *how, "--set", "metrics.every_s=0.05", "--set", "checkpoint.every_s=1",
                                        "--set", "roles.estimator.batches=1000", "--set", "roles.estimator.rate=0.005")
                values = [[float(value) for value in values.split(", ")] for values in re.search(r"TD\(0\) \[(.*)\], mean returns \[(.*)\]", said).groups()]
                for estimate in values:  # sixths: the chance to end beyond the right side
                    np.testing.assert_allclose(estimate, np.arange(1, 6) / 6, atol=0.12)
                self.assertLessEqual(self.last(run, "tables/whole_items"), 64)
                self.assertEqual(self.last(run, "tables/lost_items_per_s"), 0)
                self.assertGreater(max(self.reported(run, "tables/recent_inserts_per_s")), 0)
        said = self.run_program(program, "train", "--resume", "run0", config, "--set", "roles.estimator.batches=500")
        self.assertIn("mean returns", said)
        said = self.run_program(program, "config", config, "--set", "roles.tables.recent_max_items=0", expect=78)
        self.assertIn("roles.tables.recent_max_items", said)
        self.assertIn("Capacity of the table of this name", self.run_program(program, "config", "--explain"))

    def test_a_tables_pattern_is_that_of_its_batches(self):
        text, config = (EXAMPLES / "shared_tables.py").read_text(), EXAMPLES / "shared_tables.toml"
        pattern = ", ".join(f'"{name}": ("{name}", slice(None))' for name in ("place", "reward", "last"))
        looks = 'assert table == "whole" or (batch.data["newest"] == batch.data["place"][np.arange(16), batch.lengths - 1]).all()'
        for change in (("TableSpec(1000,", f'TableSpec(1000, pattern={{{pattern}, "newest": ("place", -1)}},'),
                       ("self.taken[table] += 1", f"{looks}; self.taken[table] += 1")):
            self.assertEqual(text.count(change[0]), 1)
            text = text.replace(*change)
        said = self.run_program(self.script("pattern.py", text), "train", config, "--set", "supervisor.max_restarts=0")
        self.assertIn("mean returns", said)

    def test_a_table_says_at_once_how_it_stands(self):
        text, config = (EXAMPLES / "shared_tables.py").read_text(), EXAMPLES / "shared_tables.toml"
        asks = 'self.answered(table, batch), timeout=5)\n'
        for change in ((asks, f'{asks}                if context.caller("samples").ready:\n                    context.caller("samples").call(troupe.SampleRequest(table, rows=0), self.told)\n'),
                       ("    def answered(", '    def told(self, info, why):\n        print("told", sorted(info), info["inserts"] >= info["items"], flush=True)\n\n    def answered(')):
            self.assertEqual(text.count(change[0]), 1)
            text = text.replace(*change)
        said = self.run_program(self.script("told.py", text), "train", config, "--set", "supervisor.max_restarts=0", "--set", "roles.estimator.batches=20")
        self.assertIn("told ['bytes', 'evictions', 'inserts', 'items', 'samples'] True", said)

    def test_tables_of_shared_steps_refuse_what_makes_no_sense(self):
        text, config = (EXAMPLES / "shared_tables.py").read_text(), EXAMPLES / "shared_tables.toml"
        for change, said, code in ((('TableSpec(1000,', 'TableSpec(1000, sampler="best",'), "best", 1), (('"place": "int32"', '"place": "complex"'), "complex", 1),
                                   (('SequenceReplayRole(STEP, TABLES)', 'SequenceReplayRole(STEP, {})'), "there is no table", 78)):
            with self.subTest(said):
                self.assertNotEqual(text.replace(*change), text)
                self.assertIn(said, self.run_program(self.script("wrong.py", text.replace(*change)), "config", config, expect=code))
        # What a writer does wrong is said to its role, what a learner asks for wrongly to the learner.
        wrong = self.script("wrong.py", text.replace('writer.create_item("whole")', 'writer.create_item("whole", steps=self.steps[walk] + 1)'))
        said = self.run_program(wrong, "train", config, "--run-dir", "steps", "--set", "supervisor.max_restarts=0", expect=1)
        self.assertRegex(said, r'an item of \d+ steps for table "whole": expected 1 to \d+')
        wrong = self.script("wrong.py", text.replace("SampleRequest(table,", 'SampleRequest("other" if self.taken["whole"] else table,'))
        said = self.run_program(wrong, "train", config, "--run-dir", "table", "--set", "max_minutes=0.05")
        self.assertIn('no table "other", there are: recent, whole', said)

    def test_mistakes_are_named(self):
        config = self.script("echo.toml", ECHO_TOML)
        for change, said, code in ((('"Square"', '"Evaluation"'), "only Troupe's own roles speak Evaluation", 1),
                                   (('kind="request"', 'kind="wish"'), "of kind 'wish', expected stream, latest or request", 1),
                                   (('{"Number": 16, "Square": 16}', '{"Number": 0, "Square": 16}'), 'message "Number": max_bytes is 0', 78),
                                   (('{"Number": 16, "Square": 16}', '{"Number": 1.5, "Square": 16}'), "most bytes are 1.5", 1),
                                   (('"most": 20', '"most": object()'), "most", 1)):
            with self.subTest(said):
                text = ECHO.replace(*change)
                self.assertNotEqual(text, ECHO)
                self.assertIn(said, self.run_program(self.script("wrong.py", text), "config", config, expect=code))
        program = self.script("echo.py", ECHO)
        self.assertIn("roles.asker.most", self.run_program(program, "config", config, "--set", "roles.asker.most=text", expect=78))

    def test_what_a_role_gives_wrongly_is_said(self):
        config = self.script("echo.toml", ECHO_TOML)
        text = ECHO.replace("assert why is None, why", "if why: return")
        for number, (change, said, code) in enumerate((
                (("return troupe.Progress.DONE", "return 7"), "step(): got a int, expected a troupe.Progress", 1),
                (('gauges={"last": ', 'gauges={"last": "much" or '), "last: got a str, expected a number", 0),  # the run does not end of it
                (("str(len(self.answers)).encode()", "str(len(self.answers))"), "a message of type Number: got a str, expected bytes", 1),
                (('"Number", kind', '"Priorities", kind'), "a message of type Priorities: got a bytes, expected a troupe.Priorities", 1),
                (('"Number", kind', '"ParametersVersion", kind'), "a message of type ParametersVersion: got a bytes, expected an integer", 1),
                (("answer(str(int(number) ** 2).encode())", "answer(None)"), "a message of type Square: got a NoneType, expected bytes", 1))):
            with self.subTest(said):
                self.assertNotEqual(text.replace(*change), text)
                words = [word for setting in ("supervisor.max_restarts=0", "roles.asker.most=20000", "metrics.every_s=0.05") for word in ("--set", setting)]
                out = self.run_program(self.script("wrong.py", text.replace(*change)), "train", config, "--run-dir", f"run{number}", *words, expect=code)
                self.assertIn(said, out)

    def reported(self, run, column):
        with (self.folder / run / "metrics.csv").open() as file:
            return [float(row[column]) for row in csv.DictReader(file) if row[column]]

    def last(self, run, column):
        return self.reported(run, column)[-1]

    def constant(self):
        """The program of LEARNER, as another program would read its runs."""
        names = {"__name__": "constant"}
        exec(textwrap.dedent(LEARNER), names)
        return troupe.Program(learners={"constant": names["Constant"]})

    def train_constant(self, *settings, expect=0, run="run", how=(), also=()):
        words = [word for setting in [*SMALL, "learner.kind=constant", *settings] for word in ("--set", setting)]
        empty = self.script("empty.toml", "")
        return self.run_program(self.script("constant.py", LEARNER), "train", empty, "--run-dir", run, *how, *words, expect=expect)

    def test_a_learner_gives_the_policy_that_acts(self):
        for how in ([], ["--processes"]):
            with self.subTest(how):
                run = f"run{len(how)}"
                slowly = ["replay.samples_per_insert=0.05", "replay.min_items=400"]  # so that it is asked for its metrics before it is done
                self.train_constant("constant.value=-0.125", "replay.sampler=prioritized", *slowly, run=run, how=how)
                self.assertIn(self.last(run, "learner/rows"), [8 * step for step in range(1, 61)])
                self.assertIn(self.last(run, "learner/version"), range(61))
                policy = troupe.load(self.folder / run).policy(program=self.constant())
                # Of equal weights w: relu and tanh of their sums, by hand.
                observation = np.array([0.5, -1.0, 0.25, 1.0, 2.0], np.float32)
                hidden = max(0.0, -0.125 * (observation.sum() + 1))
                np.testing.assert_allclose(policy.act(observation), np.tanh(-0.125 * (8 * hidden + 1)), rtol=1e-5)
                self.assertEqual(policy.step, 60)

    def test_the_policy_of_a_learner_may_lie_in_memory_in_any_order(self):
        layers = [(5, 40), (40, 33), (33, 1)]
        hidden = observation = np.array([0.5, -1.0, 0.25, 1.0, 2.0], np.float32)
        for shape in layers:
            weight, bias = (np.cos(np.arange(np.prod(each), dtype=np.float32)).reshape(each) for each in (shape, shape[1:]))
            before = hidden @ weight + bias
            hidden = np.maximum(before, 0)
        for order in ("rows", "columns", "back", "apart"):
            with self.subTest(order):
                self.train_constant(f'constant.order="{order}"', "td3.policy_layers=[40, 33]", run=order)
                policy = troupe.load(self.folder / order).policy(program=self.constant())
                np.testing.assert_allclose(policy.act(observation), np.tanh(before), rtol=1e-4)

    def test_a_learner_goes_on_from_its_checkpoint(self):
        self.train_constant("max_learner_steps=60")
        words = [word for setting in ("max_learner_steps=90",) for word in ("--set", setting)]
        program = self.script("constant.py", LEARNER.replace("agent.max_steps == 60", "agent.max_steps == 90"))
        said = self.run_program(program, "train", self.folder / "run" / "config.toml", "--resume", self.folder / "run", *words)
        self.assertIn("learner steps  90", said)
        self.assertIn(self.last("run", "learner/rows"), [8 * step for step in range(60, 91)])
        self.assertEqual(troupe.load(self.folder / "run").policy(program=self.constant()).step, 90)

    def test_a_learner_that_errs_ends_the_run_with_one_error(self):
        for mistake, said in (("raise", "ValueError: this learner does not learn"), ("name", 'gives "policy/other", which the policy does not have'),
                              ("shape", "expected [5, 8]"), ("priorities", "0 priorities, expected 8")):
            with self.subTest(mistake):
                out = self.train_constant(f'constant.mistake="{mistake}"', "replay.sampler=prioritized", expect=1, run=f"run-{mistake}")
                self.assertIn(said, out)
        self.assertIn("learner.kind", self.train_constant("learner.count=2", expect=78, run="two"))
        self.assertIn("expected one of", self.train_constant("learner.kind=other", expect=78, run="other"))


if __name__ == "__main__":
    unittest.main()
