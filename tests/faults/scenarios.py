"""The scenarios, by the numbers of docs/faults.md."""

from harness.schedule import Fault
from harness.trial import Scenario


def kill_soon(target):
    return lambda random: [Fault(random.uniform(0.2, 2.0), "kill", target)]


def f1(trial):
    trial.expect_back("actor-0", trial.fault_s[0], limit_s=2.0, port="trajectories")
    trial.expect_progress(trial.fault_s[0], limit_s=2.0)


def f2(trial):
    trial.expect_back("learner", trial.fault_s[0], limit_s=5.0, port="batches")
    trial.expect_progress(trial.fault_s[0], limit_s=5.0)


SCENARIOS = [
    Scenario("F1_env_actor_killed", "kill -9 of an env actor: sampling again within 2 s",
             kill_soon("actor-0"), f1, "ci"),
    Scenario("F2_learner_killed", "kill -9 of the learner: back from its checkpoint within 5 s, versions monotone",
             kill_soon("learner"), f2, "ci"),
]
