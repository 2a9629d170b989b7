"""A topology of one's own in Python: two kinds of roles and a type of message, as examples/hello_topology.cpp has them. The
thermometer measures, the display averages; the display is slow, so the channel's credits hold the thermometer back.

    python hello_topology.py train hello_topology.toml                 in one process
    python hello_topology.py train hello_topology.toml --processes     each role in its own
    python hello_topology.py graph hello_topology.toml                 a picture of it
"""

import struct

import troupe


class Thermometer(troupe.Role):
    """Measures as fast as its outlet has room"""

    outlets = {"celsius": "Celsius"}
    keys = {"lowest": troupe.Key(20.0, "Of its measurements", unit="degrees")}
    elastic = True

    def __init__(self, keys, identity):
        self.lowest, self.measured = keys["lowest"], 0

    def step(self, context):
        celsius = context.outlet("celsius")
        if not celsius.ready:
            return troupe.Progress.IDLE  # no credit: called again when the display has taken a message
        celsius.send(struct.pack("d", self.lowest + 0.5 * (self.measured % 5)))
        self.measured += 1
        return troupe.Progress.MORE


class Display(troupe.Role):
    """Averages what is measured"""

    inlets = {"celsius": "Celsius"}
    keys = {"measurements": troupe.Key(100, "After which it is done, and the run with it", min=1)}
    completes_run = True
    restart_from_checkpoint = True

    def __init__(self, keys, identity):
        self.wanted, self.count, self.sum = keys["measurements"], 0, 0.0

    def step(self, context):
        if self.count >= self.wanted:
            return troupe.Progress.DONE
        message = context.inlet("celsius").take()
        if message is None:
            return troupe.Progress.IDLE
        self.sum += struct.unpack("d", message)[0]
        self.count += 1
        if self.count < self.wanted:
            return troupe.Progress.MORE
        print(f"mean of {self.count} measurements: {self.sum / self.count:.2f} degrees", flush=True)
        return troupe.Progress.DONE

    def report(self):
        return {"mean": self.sum / max(self.count, 1)}

    def save(self):  # what it has seen goes into every checkpoint, so a run that is stopped goes on with --resume
        return {"count": self.count, "sum": [self.sum]}

    def restore(self, state):
        self.count, self.sum = state["count"], float(state["sum"][0])


if __name__ == "__main__":
    raise SystemExit(troupe.main(roles={"thermometer": Thermometer, "display": Display}, messages={"Celsius": 8}))
