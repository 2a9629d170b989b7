"""Two tables of a run over the same time steps: walks on a line (Sutton and Barto 2018, Example 6.2) are written once, and an
estimator says how good each place is in two ways: by TD(0) from short sequences, drawn at random from the table `recent`,
and by the mean return of whole walks, each of which the table `whole` gives once.

    python shared_tables.py train shared_tables.toml                 in one process
    python shared_tables.py train shared_tables.toml --processes     each role in its own
"""

import numpy as np

import troupe

PLACES = 5  # a walk begins in the middle and ends beyond either side; beyond the right one it is rewarded by 1
STEP = {"place": "int32", "reward": "float32", "last": "bool"}
TABLES = {"recent": troupe.TableSpec(1000, limiter=troupe.RateLimiter.min_size(100)), "whole": troupe.TableSpec.queue(64)}


class Walker(troupe.Role):
    """Walks by chance"""

    outlets = {"steps": "Steps"}
    keys = {"walks": troupe.Key(8, "At the same time", min=1, max=1024)}

    def __init__(self, keys, identity):
        self.random = np.random.default_rng((identity.seed, identity.incarnation))
        self.writers = [troupe.StepsWriter(STEP, max_steps=10_000) for _ in range(keys["walks"])]
        self.places = np.full(keys["walks"], PLACES // 2)
        self.steps = np.zeros(keys["walks"], int)

    def step(self, context):
        if not all([writer.flush(context) for writer in self.writers]):
            return troupe.Progress.IDLE  # called again when there is room: a full table holds walks back
        for walk, writer in enumerate(self.writers):
            place = self.places[walk]
            next_place = place + self.random.choice([-1, 1])
            last = next_place in (-1, PLACES)
            writer.append({"place": place, "reward": next_place == PLACES, "last": last})
            self.steps[walk] += 1
            # Items overlap by one step, so that each transition is in one of them.
            if last:
                writer.create_item("recent", steps=(self.steps[walk] - 2) % 3 + 2 if self.steps[walk] > 1 else 1)
                writer.create_item("whole")
                writer.end_episode()
            elif self.steps[walk] > 1 and self.steps[walk] % 3 == 1:
                writer.create_item("recent", steps=4)
            self.places[walk], self.steps[walk] = (PLACES // 2, 0) if last else (next_place, self.steps[walk])
        return troupe.Progress.MORE


class Estimator(troupe.Role):
    """Estimates the value of each place"""

    outlets = {"samples": troupe.Port("SampleRequest", kind="request", answer="Batch")}
    keys = {"batches": troupe.Key(200, "Of either table, after which it is done, and the run with it", min=1), "rate": 0.02}
    completes_run = True
    restart_from_checkpoint = True

    def __init__(self, keys, identity):
        self.wanted, self.rate = keys["batches"], keys["rate"]
        self.taken = {"recent": 0, "whole": 0}
        self.td, self.returns, self.visits = np.full(PLACES, 0.5), np.zeros(PLACES), np.zeros(PLACES)
        self.asked = set()

    def step(self, context):
        if min(self.taken.values()) >= self.wanted:
            td, mean = self.values()
            print(f"TD(0) {td.round(2).tolist()}, mean returns {mean.round(2).tolist()}", flush=True)
            return troupe.Progress.DONE
        for table in self.taken.keys() - self.asked:
            if context.caller("samples").ready and self.taken[table] < self.wanted:
                self.asked.add(table)
                context.caller("samples").call(troupe.SampleRequest(table, rows=16, timeout=5), lambda batch, why, table=table: self.answered(table, batch), timeout=5)
        return troupe.Progress.IDLE

    def answered(self, table, batch):
        self.asked.remove(table)
        if batch is None:
            return  # nothing came within its time: step() asks again
        self.taken[table] += 1
        for row, length in enumerate(batch.lengths):
            places, rewards, last = (batch.data[name][row, :length] for name in ("place", "reward", "last"))
            if table == "recent":
                for t in range(length if last[-1] else length - 1):
                    target = rewards[t] if last[t] else self.td[places[t + 1]]
                    self.td[places[t]] += self.rate * (target - self.td[places[t]])
            else:
                np.add.at(self.returns, places, rewards.sum())  # the reward comes at the end
                np.add.at(self.visits, places, 1)

    def values(self):
        return self.td, self.returns / np.maximum(self.visits, 1)

    def report(self):
        td, mean = self.values()
        return {f"{name}_{place}": values[place] for name, values in (("td", td), ("mean", mean)) for place in range(PLACES)}

    def save(self):
        return {"recent": self.taken["recent"], "whole": self.taken["whole"], "td": self.td, "returns": self.returns, "visits": self.visits}

    def restore(self, state):
        self.taken = {table: state[table] for table in self.taken}
        self.td, self.returns, self.visits = (np.array(state[name]) for name in ("td", "returns", "visits"))


if __name__ == "__main__":
    tables = troupe.SequenceReplayRole(STEP, TABLES)
    raise SystemExit(troupe.main(roles={"walker": Walker, "estimator": Estimator, "tables": tables}))
