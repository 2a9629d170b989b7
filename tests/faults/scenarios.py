"""The scenarios, by the numbers of docs/faults.md: what goes wrong, and what must hold. Limits are those of that page.

A plan gives the faults from a random generator; times count from the moment at which the run is steady. What holds for
all of them (monotone versions, one owner, no growth, nothing left behind, exit status 0) is judged by harness/trial.py.
"""

import signal

from harness.oracles import no_lost_items
from harness.observe import read_metrics
from harness.schedule import Fault
from harness.training import ClusterTraining, MovedClockTraining, SmallDiskTraining
from harness.trial import Scenario

SEVERAL_ACTORS = ("actors.count=2", "placement.actors.nodes=2")
TWO_LEARNERS = ("learner.count=2", "placement.learner.nodes=2")


# --- plans ---


def at(random):
    return random.uniform(0.2, 2.0)


def kill(target):
    return lambda random: [Fault(at(random), "kill", target)]


def for_a_time(begin_action, end_action, target, for_s):
    """A fault that ends by itself."""
    def plan(random):
        begin = at(random)
        return [Fault(begin, begin_action, target), Fault(begin + for_s, end_action, target)]
    return plan


def stop(target, for_s):
    return for_a_time("stop", "go_on", target, for_s)


def stop_with_launcher(target, for_s):
    """Nobody is there who could end the stopped process."""
    def plan(random):
        begin = at(random)
        return [Fault(begin, "stop", "launcher"), Fault(begin, "stop", target),
                Fault(begin + for_s, "go_on", target), Fault(begin + for_s, "go_on", "launcher")]
    return plan


def cut_off(action, target, for_s):
    """A black hole that heals."""
    return for_a_time(action, "heal", target, for_s)


def move_clock(*shifts):
    """Every 3 s the wall clock is set to so many seconds from now."""
    return lambda random: [Fault(1.0 + 3.0 * turn, "move_clock", "host", {"by_s": by_s})
                           for turn, by_s in enumerate(shifts)]


def many_kills(count, every_s, targets):
    """One process after the other, at random."""
    return lambda random: [Fault(every_s * turn + random.uniform(0.2, 2.0), "kill", random.choice(targets))
                           for turn in range(count)]


def kill_both(first, second, after_s):
    """The first comes back before the second."""
    def plan(random):
        begin = at(random)
        return [Fault(begin, "kill", first), Fault(begin + after_s, "kill", second)]
    return plan


def flap(target, times, every_s=0.2):
    def plan(random):
        begin = at(random)
        return [Fault(begin + turn * every_s, "heal" if turn % 2 else "partition", target) for turn in range(2 * times)]
    return plan


def power_cut(target, down_s=0.5):
    def plan(random):
        begin = at(random)
        return [Fault(begin, "kill_host", target), Fault(begin + down_s, "boot_host", target)]
    return plan


def degrade(action, target, **how):
    return lambda random: [Fault(at(random), action, target, how)]


# --- checks ---


SEEN_CLOSED_S, SEEN_SILENT_S = 0.5, 1.5  # G1, and what a busy machine may add
GROUP_GOES_ON_S = 1.7  # 0.5 s, and the second between two looks at the status


def back(name, port, limit_s, steps_s=None, detected_s=SEEN_SILENT_S):
    """The instance lost its process: a new incarnation works within limit_s, and the learner steps within steps_s."""
    def check(trial):
        trial.expect_back(name, trial.fault_s[0], limit_s, port, detected_s)
        trial.expect_progress(trial.fault_s[0], steps_s or limit_s)
    return check


def killed(name, port, limit_s):
    return back(name, port, limit_s, detected_s=SEEN_CLOSED_S)


def keeps_items(check, window_s):
    """The table never loses more than what came in within window_s."""
    def both(trial):
        check(trial)
        trial.wrong += no_lost_items(read_metrics(trial.training.run_folder / "metrics.csv"), window_s)
    return both


def nothing_happens(trial):
    trial.expect_no_deaths()
    trial.expect_progress(trial.fault_s[0], limit_s=2.0)


def chief_back(trial):
    """Control is back when somebody answers with a newer term; the learner went on meanwhile."""
    fault_s = trial.fault_s[0]
    term = trial.before(fault_s).term
    back_s = trial.first(fault_s, lambda snapshot: snapshot.term > term)
    trial.expect("control back", back_s, fault_s, limit_s=5.0)
    if back_s is not None:
        trial.expect_steps_during(fault_s, back_s + 1.0, share=0.25)  # when it knows of all nodes


def works_again(name, port, limit_s):
    """The instance works again within limit_s after the last fault, which heals, in whatever incarnation."""
    def check(trial):
        trial.expect_works(name, port, trial.fault_s[-1], limit_s)
        trial.expect_progress(trial.fault_s[-1], limit_s)
    return check


def chief_back_with(name, port):
    """What ran on the chief's node works again too, with what runs elsewhere."""
    def check(trial):
        chief_back(trial)
        trial.expect_works(name, port, trial.fault_s[0], limit_s=5.0)
    return check


def healed(name, port, limit_s):
    """The same of an instance without which the learner goes on."""
    def check(trial):
        trial.expect_works(name, port, trial.fault_s[-1], limit_s)
        trial.expect_progress(trial.fault_s[0], limit_s=2.0)
    return check


def fenced(name, port):
    """The instance's node sleeps until the last fault and cannot be ended: it is declared dead, and when it wakes it
    hears that it is fenced and ends; then a successor works."""
    def check(trial):
        began_s, woke_s = trial.fault_s[0], trial.fault_s[-1]
        node = trial.before(began_s).instances[name].node
        trial.expect(f"{name} detected", trial.first(began_s, lambda now: now.nodes[node].state != "up"), began_s,
                     SEEN_SILENT_S)
        trial.expect("the old process fenced", trial.said("TRP-F111", woke_s), woke_s, limit_s=1.5)
        trial.expect_works(name, port, woke_s, limit_s=5.0)
    return check


def hang_has_a_name(name, limit_s):
    """The others of the group, or a checkpoint, wait for the instance, whose process answers: the log says for whom,
    nobody is taken for dead, and all go on when it does."""
    def check(trial):
        began_s, ended_s = trial.fault_s
        verdicts = (f"{name}) has not entered", f"{name}) does not go on with", f" s from {name}")
        said = [trial.said(verdict, began_s) for verdict in verdicts]
        trial.expect("the hang has a name", min((at_s for at_s in said if at_s), default=None), began_s, limit_s)
        trial.expect_no_deaths()
        trial.expect_progress(ended_s, limit_s=2.0)
    return check


def disk_was_full(trial):
    """Checkpoints fail and say so, all else goes on, and when there is room again so do the checkpoints."""
    full_s, room_s = trial.fault_s
    trial.expect("said that the disk is full", trial.said("TRP-E601", full_s), full_s, limit_s=5.0)
    trial.expect_steps_during(full_s, room_s, share=0.5)
    trial.expect_no_deaths()
    last = trial.before(room_s).last_cut
    trial.expect("a checkpoint again", trial.first(room_s, lambda now: now.last_cut > last), room_s, limit_s=6.0)


def second_refused(trial):
    """Who comes second under a name hears why it has to wait, and nobody else notices."""
    trial.expect_no_deaths()
    said = trial.actions.second.output.wait_for("TRP-E161", timeout_s=0, since=trial.fault_s[0])
    trial.expect("told that its name is taken", said, trial.fault_s[0], limit_s=6.0)


def survives_all(stall_s):
    """The learner never stands still for longer, and at the end everybody is up."""
    def check(trial):
        trial.wrong += trial.learner_version().stalled(trial.fault_s[0], trial.end_s, stall_s)
        trial.wrong += [f"{one.name} is {one.state} at the end"
                        for one in trial.observer.snapshots[-1].instances.values() if one.state != "up"]
    return check


def stops_in_order(trial):
    if trial.exit_status != 0:
        trial.wrong.append(f"exit status {trial.exit_status}, expected 0")
    trial.expect("stopped", trial.end_s, trial.fault_s[0], limit_s=10.0)
    if trial.training.launcher.output.wait_for("TRP-I001", timeout_s=0) is None:
        trial.wrong.append("no line TRP-I001 that names the last checkpoint")


def stops_at_once(trial):
    if trial.exit_status != 128 + signal.SIGINT:
        trial.wrong.append(f"exit status {trial.exit_status}, expected {128 + signal.SIGINT}")
    trial.expect("stopped", trial.end_s, trial.fault_s[0], limit_s=1.0)


def all_refused(trial):
    """Nobody who may not is let in or answered, at any socket, and the run does not notice."""
    attacked = trial.actions.attacked
    if not attacked:
        trial.wrong.append("nothing listens anywhere")
    trial.wrong += [f"{one['host']}:{one['port']}: {one['input']}: {one['verdict']} ({one['said']!r})"
                    for one in attacked if one["verdict"] != "refused"]
    trial.expect_no_deaths()


def hosts(*more):
    return {"training": ClusterTraining, "needs": ("root", "hosts", *more)}


ONE_HOST_NODES = ("chief", "replay", "learner", "parameters", "evaluator", "actors")

SCENARIOS = [
    # One host, a process for each role.
    Scenario("F1_env_actor_killed", "kill -9 of an env actor: sampling again within 2 s",
             kill("actor-0"), killed("actor-0", "trajectories", 2.0), tier="ci", settings=SEVERAL_ACTORS),
    Scenario("F2_learner_killed", "kill -9 of the learner: back from its checkpoint within 5 s, versions monotone",
             kill("learner"), killed("learner", "batches", 5.0), tier="ci"),
    Scenario("F2_learner_of_a_group_killed", "kill -9 of one of two learners: the other goes on at once, it comes back",
             kill("learner-0"), back("learner-0", "batches", 5.0, steps_s=GROUP_GOES_ON_S, detected_s=SEEN_CLOSED_S),
             tier="ci", settings=TWO_LEARNERS),
    Scenario("F2_learner_of_a_group_stopped", "SIGSTOP of one of two learners: the other goes on when it is declared dead",
             stop("learner-1", 10.0), back("learner-1", "batches", 5.0, steps_s=1.0 + GROUP_GOES_ON_S),
             settings=TWO_LEARNERS),
    Scenario("F2_learners_of_a_group_killed", "kill -9 of one of two learners every 3 s, 6 times",
             many_kills(6, 3.0, ("learner-0", "learner-1")), survives_all(stall_s=4.0), settings=TWO_LEARNERS),
    Scenario("F2_whole_group_killed", "kill -9 of both learners, who publishes last: on from the checkpoint, versions monotone",
             kill_both("learner-1", "learner-0", 0.8), works_again("learner-0", "batches", 6.0), settings=TWO_LEARNERS),
    Scenario("F2_hang_in_a_group", "the working thread of one of two learners stands still for 4 s: the log names it",
             for_a_time("stop_thread", "thread_goes_on", "learner-1", 4.0), hang_has_a_name("learner-1", limit_s=3.0),
             tier="ci", settings=(*TWO_LEARNERS, "checkpoint.every_s=60"), needs=("root", "hosts", "ptrace"),
             settle_s=3.0),
    Scenario("F2_hang_in_a_cut", "the same for 6 s, while checkpoints ask for a pause",
             for_a_time("stop_thread", "thread_goes_on", "learner-1", 6.0), hang_has_a_name("learner-1", limit_s=5.0),
             settings=TWO_LEARNERS, needs=("root", "hosts", "ptrace"), settle_s=3.0),
    Scenario("F3_replay_killed", "kill -9 of replay: back within 5 s, at most the last second's items are lost",
             kill("replay"), keeps_items(killed("replay", "trajectories", 5.0), window_s=1.0), tier="ci"),
    Scenario("F4_parameter_store_killed", "kill -9 of the parameter store: rebuilt from the learner, version monotone",
             kill("parameters"), killed("parameters", "parameters", 2.0)),
    Scenario("F5_chief_killed", "kill -9 of the chief: training goes on, control is back within 5 s",
             kill("chief"), chief_back_with("parameters", "updates"), tier="ci",
             settings=("placement.parameters.nodes=0",)),
    Scenario("F7_stopped_for_300_ms", "SIGSTOP of the learner for 0.3 s: nothing happens",
             stop("learner", 0.3), nothing_happens),
    Scenario("F7_stopped_for_10_s", "SIGSTOP of the learner: declared dead, ended by the launcher and replaced",
             stop("learner", 10.0), back("learner", "batches", 5.0)),
    Scenario("F7_stopped_with_its_launcher", "SIGSTOP of the learner and the launcher for 3 s: fenced when it wakes",
             stop_with_launcher("learner", 3.0), fenced("learner", "batches")),
    Scenario("F10_disk_full", "the run's disk is full for 6 s: checkpoints fail and come back, all else goes on",
             for_a_time("fill_disk", "empty_disk", "host", 6.0), disk_was_full, training=SmallDiskTraining),
    Scenario("F13_clock_moved", "the wall clock moves by an hour forth and back and by 7 years: nothing happens",
             move_clock(3600, -3500, 7 * 365 * 86400, 0), nothing_happens, training=MovedClockTraining),
    Scenario("F20_second_of_a_name", "another process takes the learner's name: it is refused and told so",
             for_a_time("start_second", "end_second", "learner", 6.0), second_refused),
    Scenario("F22_little_cpu", "the processor's quota falls to 20 %: nobody is taken for dead",
             degrade("cpu", "host", share=0.2), nothing_happens, needs=("root", "hosts", "cpu"), settle_s=15.0),
    Scenario("F24_stopped_by_a_signal", "SIGTERM: a checkpoint, exit status 0 within 10 s",
             degrade("signal_launcher", "host", number=int(signal.SIGTERM)), stops_in_order, ends_itself=True,
             settle_s=20.0),
    Scenario("F24_stopped_at_once", "SIGINT twice: the second ends everything at once, exit status 130",
             degrade("signal_launcher", "host", number=int(signal.SIGINT), times=2), stops_at_once, ends_itself=True),
    Scenario("B_bad_peers", "hostile clients at every socket of every process",
             degrade("bad_peers", "host"), all_refused, needs=("root", "hosts", "openssl")),
    Scenario("G7_many_kills", "kill -9 of a process at random every 15 s, 20 times", many_kills(20, 15.0, ONE_HOST_NODES),
             survives_all(stall_s=6.0), tier="long"),

    # Six hosts, with `troupe up`.
    Scenario("F6_replay_host_lost", "power cut of the host of replay", power_cut("replay"),
             keeps_items(back("replay", "trajectories", 6.0), window_s=1.0), settle_s=10.0, **hosts()),
    Scenario("F6_learner_host_lost", "power cut of the learner's host", power_cut("learner"),
             back("learner", "batches", 6.0), settle_s=10.0, **hosts()),
    Scenario("F6_actor_host_lost", "power cut of an env actor's host", power_cut("left"),
             back("actor-0", "trajectories", 6.0, steps_s=2.0), settle_s=10.0, **hosts()),
    Scenario("F6_chief_host_lost", "power cut of the chief's host", power_cut("head"), chief_back, settle_s=12.0,
             **hosts()),
    Scenario("F7_frozen_host", "the learner's host stands still for 3 s: declared dead, fenced when it wakes",
             for_a_time("freeze", "thaw", "learner", 3.0), fenced("learner", "batches"), settle_s=8.0, **hosts()),
    Scenario("F7_frozen_host_60_s", "the same for 60 s: ssh has given it up too",
             for_a_time("freeze", "thaw", "learner", 60.0), fenced("learner", "batches"), settle_s=15.0, tier="long",
             **hosts()),
    Scenario("F8_partition", "an env actor's host cut off for 3 s: the rest goes on, it works again 3 s after",
             cut_off("partition", "left", 3.0), healed("actor-0", "trajectories", 3.0), **hosts("nft")),
    Scenario("F8_nothing_arrives", "nothing reaches an env actor's host for 3 s",
             cut_off("block_to", "left", 3.0), healed("actor-0", "trajectories", 3.0), **hosts("nft")),
    Scenario("F8_nothing_leaves", "nothing leaves an env actor's host for 3 s",
             cut_off("block_from", "left", 3.0), healed("actor-0", "trajectories", 3.0), **hosts("nft")),
    Scenario("F8_flapping", "an env actor's host cut off for 0.2 s, ten times in 4 s",
             flap("left", 10), healed("actor-0", "trajectories", 7.0), **hosts("nft")),
    Scenario("F8_learner_cut_off", "the learner's host cut off for 3 s: it works again 5 s after",
             cut_off("partition", "learner", 3.0), works_again("learner", "batches", 5.0), settle_s=8.0,
             **hosts("nft")),
    Scenario("F8_chief_cut_off", "the chief's host cut off for 3 s: all is as before 5 s after",
             cut_off("partition", "head", 3.0), works_again("learner", "batches", 5.0), settle_s=10.0, **hosts("nft")),
    Scenario("F9_loss_and_delay", "5 % loss and 100 ms on the learner's cable: nobody is taken for dead",
             degrade("cable", "learner", delay_ms=50, jitter_ms=10, loss=0.05), nothing_happens, settle_s=20.0,
             slow_hosts=("learner",), **hosts("delay")),
    Scenario("F9_duplicates_and_disorder", "2 % doubled and 5 % overtaking frames on the learner's cable",
             degrade("cable", "learner", delay_ms=5, duplicate=0.02, reorder=0.05), nothing_happens, settle_s=20.0,
             slow_hosts=("learner",), **hosts("delay")),
    Scenario("F9_narrow", "an env actor's host sends 1 Mbit/s: nobody is taken for dead",
             degrade("rate", "left", rate="1mbit"), nothing_happens, settle_s=20.0, **hosts("rate")),
    Scenario("B_bad_peers_of_hosts", "hostile clients at every socket of every host",
             degrade("bad_peers", "office"), all_refused, **hosts("openssl")),
]
