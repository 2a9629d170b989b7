"""What must hold whatever happens to a run. Each oracle is given observations (observe.py) and returns what is wrong,
one line each; an empty list is a pass. They know nothing of the faults but their times.
"""

import bisect
import collections
import statistics


MAKERS = {"learner", "parameters"}  # roles whose versions others rely on


def monotone_versions(snapshots):
    """The versions of the learner and of the parameter store never fall, over all their incarnations. Those of others
    do not fall within one incarnation; a new one starts with none."""
    wrong, highest = [], {}
    for snapshot in snapshots:
        for instance in snapshot.instances.values():
            if instance.version < 0:
                continue
            key = instance.name if instance.role in MAKERS else (instance.name, instance.incarnation)
            if instance.version < highest.get(key, 0):
                wrong.append(f"version of {instance.name} fell from {highest[key]} to {instance.version} at "
                             f"{snapshot.at_s:.2f} s")
            highest[key] = max(instance.version, highest.get(key, 0))
    return wrong


def one_owner(snapshots):
    """An incarnation of an instance lives on one incarnation of one node; incarnations of what is up and the chief's
    term never fall."""
    wrong, owner, newest, term = [], {}, {}, 0
    for snapshot in snapshots:
        at = f"at {snapshot.at_s:.2f} s"
        if snapshot.term < term:
            wrong.append(f"term fell from {term} to {snapshot.term} {at}")
        term = max(term, snapshot.term)
        for instance in snapshot.instances.values():
            if instance.state != "up":
                continue  # a chief that has just come back does not know yet which one runs
            if instance.incarnation < newest.get(instance.name, 0):
                wrong.append(f"incarnation of {instance.name} fell from {newest[instance.name]} to "
                             f"{instance.incarnation} {at}")
            newest[instance.name] = instance.incarnation
            node = snapshot.nodes.get(instance.node)
            if node is None:
                continue
            here = (node.name, node.incarnation)
            before = owner.setdefault((instance.name, instance.incarnation), here)
            if before != here:
                wrong.append(f"{instance.name} incarnation {instance.incarnation} ran on {before[0]} (incarnation "
                             f"{before[1]}) and on {here[0]} (incarnation {here[1]}) {at}")
    return wrong


def no_growth(usages, since_s, fds=4, threads=2, rss_share=0.10, rss_bytes=32 << 20):
    """No process holds more at the end of what was seen of it after since_s (the median of the last third) than it ever
    held before: connections come and go with the nodes at their other ends, but are not left behind. The limits are
    what a connection that is being replaced, and an allocator's caches, explain."""
    wrong, by_process = [], collections.defaultdict(list)
    for usage in usages:
        if usage.at_s >= since_s:
            by_process[usage.name, usage.pid].append(usage)
    for (name, pid), samples in sorted(by_process.items()):
        third = len(samples) // 3
        if third < 2:
            continue  # it lived too short to say
        for key, allowed in ("fds", lambda _: fds), ("threads", lambda _: threads), (
                "rss_bytes", lambda begin: max(rss_bytes, rss_share * begin)):
            begin = max(getattr(sample, key) for sample in samples[:-third])
            end = statistics.median(getattr(sample, key) for sample in samples[-third:])
            if end > begin + allowed(begin):
                wrong.append(f"{key} of {name} (process {pid}) grew from {begin:.0f} to {end:.0f}")
    return wrong


def no_lost_items(rows, window_s):
    """The replay table, as the metrics tell of it, never shrinks by more than came in within window_s."""
    wrong, last, rate = [], 0.0, 0.0
    for row in rows:
        items = row.get("replay/items")
        if items is None:
            continue
        if last - items > window_s * rate:
            wrong.append(f"replay fell from {last:.0f} to {items:.0f} items while {rate:.0f} came in a second")
        last, rate = items, row.get("replay/inserts_per_s", rate)
    return wrong


class Ledger:
    """Inserts that replay acknowledged to their producers, against those that are there after a recovery.

    An insert is named by its producer and the producer's number for it. A lost one counts when it was acknowledged more
    than `window_s` before the fault: 0 in the durable mode, 1 in the default mode."""

    def __init__(self):
        self._acknowledged = {}  # (producer, number) -> at_s

    def acknowledge(self, producer, number, at_s):
        self._acknowledged.setdefault((producer, number), at_s)

    def lost(self, present, fault_s, window_s):
        missing = [(key, at_s) for key, at_s in self._acknowledged.items() if at_s <= fault_s and key not in present]
        return [f"insert {number} of {producer}, acknowledged {fault_s - at_s:.2f} s before the fault, is gone"
                for (producer, number), at_s in sorted(missing) if window_s == 0 or fault_s - at_s > window_s]


class Counter:
    """Something that only grows while a run makes progress, as samples over time."""

    def __init__(self, name):
        self.name = name
        self.at_s, self.values = [], []

    def add(self, at_s, value):
        self.at_s.append(at_s)
        self.values.append(value)

    def reached(self, since_s, more):
        """The time at which it had grown by `more` after since_s; None when it did not."""
        first, base = bisect.bisect_left(self.at_s, since_s), self.at(since_s)
        return next((at for at, value in zip(self.at_s[first:], self.values[first:]) if value >= base + more), None)

    def at(self, when_s):
        """The last value at or before a time; 0 before the first."""
        index = bisect.bisect_right(self.at_s, when_s)
        return self.values[index - 1] if index > 0 else 0

    def rate(self, begin_s, end_s):
        """Growth a second, from the last sample before the time to the first one after it."""
        if not self.at_s:
            return 0.0
        begin = max(bisect.bisect_right(self.at_s, begin_s) - 1, 0)
        end = min(bisect.bisect_left(self.at_s, end_s), len(self.at_s) - 1)
        seconds = self.at_s[end] - self.at_s[begin]
        return (self.values[end] - self.values[begin]) / seconds if seconds > 0 else 0.0

    def stalled(self, begin_s, end_s, limit_s):
        """Stretches of [begin_s, end_s] longer than limit_s in which it did not grow."""
        wrong, since, last = [], begin_s, None
        samples = [(at, value) for at, value in zip(self.at_s, self.values) if begin_s <= at <= end_s]
        for at, value in [*samples, (end_s, None)]:
            if last is None or value is None or value > last:
                if at - since > limit_s:
                    wrong.append(f"{self.name} stood still for {at - since:.2f} s from {since:.2f} s on, at most "
                                 f"{limit_s} s is allowed")
                since, last = at, value if value is not None else last
        return wrong
