"""`python -m troupe.ray CONFIG --nodes N`: a run on a Ray cluster, also as the entrypoint of `ray job submit`.

Ray gives out the places and starts again what dies with them: one placement group, whose bundles have what
`troupe plan` says, and in each bundle an actor that runs one Troupe node. Everything else is `troupe up` with a relay
(troupe.relay) in the place of ssh: the same lines, restarts and exit codes. docs/ray.md has the rest.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import pathlib
import shlex
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from typing import Any

from troupe import fetch, relay
from troupe.cli import PROGRAM

try:
    import ray
    from ray.exceptions import GetTimeoutError, RayActorError, RayError
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
except ModuleNotFoundError as missing:
    if missing.name != "ray":
        raise
    ray = None

_ANSWER_S = 30  # of an actor that is there
_RESTART_S = 10  # a relay waits so long for its actor, then says that it is being restarted; the launcher asks again
# What a fetched run does without: rows of replay, and keys.
_NOT_FETCHED = ("journal", "security")
_PASSED_ON = ("--seed", "--max-minutes", "--init")


class Failure(Exception):
    """The message is for the user."""


class Host(relay.Place):
    """The actor in a bundle."""

    def __init__(self) -> None:
        from troupe.cli import PROGRAM  # of this host

        super().__init__(ray.util.get_node_ip_address(), str(PROGRAM.parent))

    def where(self) -> tuple[str, str]:
        """This host's address, and Ray's id of it."""
        return ray.util.get_node_ip_address(), ray.get_runtime_context().get_node_id()

    def files(self, path, without):
        """A folder that is here, in chunks."""
        yield from fetch.pack(self.folder / path, without)


class RayPlaces:
    """The bundles' actors as places of a relay: "chief", "actors-0"..."""

    def __init__(self, actors: dict[str, Any]) -> None:
        self._actors = actors

    def run(self, place, token, command):
        actor = self._await(place)
        try:
            for output in actor.run.options(num_returns="streaming").remote(token, command):
                yield ray.get(output)
        except RayActorError:
            raise relay.Restarting from None
        except RayError as error:
            raise relay.Lost(f"ray: {place}: {error}") from None

    def feed(self, place, token, data):
        try:
            ray.get(self._actors[place].feed.remote(token, data), timeout=_ANSWER_S)
        except RayActorError:
            raise relay.Restarting from None
        except (RayError, GetTimeoutError) as error:
            raise relay.Lost(f"ray: {place}: {error}") from None

    def _await(self, place):
        if place not in self._actors:
            raise relay.Lost(f"ray: no bundle is called {place}")
        actor, deadline = self._actors[place], time.monotonic() + _RESTART_S
        while (left := deadline - time.monotonic()) > 0:
            try:
                ray.get(actor.where.remote(), timeout=left)
                return actor
            except (RayActorError, GetTimeoutError):
                time.sleep(0.1)
        raise relay.Restarting


def _arguments(words):
    parser = argparse.ArgumentParser(prog="python -m troupe.ray", description="Trains on a Ray cluster; Ctrl-C makes a checkpoint and ends the run")
    parser.add_argument("config", help="configuration file, or the name of a shipped one")
    parser.add_argument("--nodes", type=int, help="bundles, with a node in each; by default as [placement] says")
    parser.add_argument("--strategy", choices=("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"), default="PACK", help="of the placement group")
    parser.add_argument("--resource", action="append", default=[], metavar="NODES:NAME=AMOUNT",
                        help="what a bundle has besides or instead of what `troupe plan` says, as replay:memory=8e9 or chief:CPU=2; may be repeated")
    parser.add_argument("--wait", type=float, default=600, metavar="S", help="for the bundles, at most (%(default)g s)")
    parser.add_argument("--run-dir", metavar="DIR", help="where the run is recorded, by default runs/NAME-TIME")
    parser.add_argument("--resume", metavar="RUN", help="go on from the newest checkpoint of a run on storage that all hosts share")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a key of the configuration; may be repeated")
    for name in _PASSED_ON:
        parser.add_argument(name, help="as of `troupe up`")
    parser.add_argument("--deterministic", action="store_true", help="as of `troupe up`")
    arguments = parser.parse_args(words)
    if arguments.run_dir and arguments.resume:
        parser.error("--run-dir and --resume exclude each other")
    return arguments


def _settings(arguments):
    return [word for setting in arguments.set for word in ("--set", setting)]


def _plan(arguments):
    """The nodes, in their order, as `troupe plan` has them. It has said itself what is wrong where it raises."""
    command = [PROGRAM, "plan", arguments.config, "--json", *_settings(arguments)]
    if arguments.nodes is not None:
        command += ["--nodes", str(arguments.nodes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return json.loads(done.stdout)


def bundles_of(nodes: list[dict[str, Any]], resources: list[str]) -> list[dict[str, float]]:
    """What each node's bundle has. resources: --resource's."""
    more: dict[str, dict[str, float]] = {}
    kinds = {node["placement"] or "chief" for node in nodes}
    for text in resources:
        of, _, rest = text.partition(":")
        name, _, amount = rest.partition("=")
        if of not in kinds or not name:
            raise Failure(f"--resource {text}: expected NODES:NAME=AMOUNT with NODES one of {', '.join(sorted(kinds))}")
        try:
            number = float(amount)
        except ValueError:
            number = math.nan
        if not 0 <= number < math.inf:
            raise Failure(f"--resource {text}: expected a number of 0 or more behind =")
        more.setdefault(of, {})[name] = number
    bundles = []
    for node in nodes:
        bundle = {"CPU": node["cpus"], "GPU": node["gpus"]} | more.get(node["placement"] or "chief", {})
        bundles.append({name: amount for name, amount in bundle.items() if amount > 0})
        if not bundles[-1]:
            raise Failure(f"--resource: nothing is left of the bundle of {node['name']}, and Ray wants something in each")
    return bundles


def hosts_file(nodes: list[dict[str, Any]]) -> str:
    """hosts.toml: each node has a host of its own, which is called as the node is."""
    text = ""
    for node in nodes:
        hosted = f'{{ {json.dumps(node["placement"])} = 1 }}' if node["placement"] else "{}"
        text += f'[[hosts]]\nssh = "{node["name"]}"\ntroupe = "troupe"\nnodes = {hosted}\n'
    return text


def _say(text):
    print(f"ray | {text}", flush=True)


def _reserve(bundles, strategy, patience):
    group = placement_group(bundles, strategy=strategy)
    if not group.wait(min(patience, 5)):
        _say(f"waiting for {len(bundles)} bundles ({strategy}): {json.dumps(bundles)}")
        if not group.wait(max(patience - 5, 0)):
            remove_placement_group(group)
            raise Failure(f"Ray has not given {len(bundles)} bundles ({strategy}) within {patience:g} s: asked for {json.dumps(bundles)}, "
                          f"the cluster has {json.dumps(ray.available_resources())} left")
    return group


def _start_actors(group, nodes, bundles, patience):
    actors = {}
    for index, (node, bundle) in enumerate(zip(nodes, bundles, strict=True)):
        special = {"num_cpus": bundle.get("CPU", 0), "num_gpus": bundle.get("GPU", 0), "memory": bundle.get("memory")}
        others = {name: amount for name, amount in bundle.items() if name not in ("CPU", "GPU", "memory")}
        actors[node["name"]] = ray.remote(Host).options(
            **special, resources=others, max_restarts=-1, max_concurrency=32,
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)).remote()
    try:
        places = ray.get([actor.where.remote() for actor in actors.values()], timeout=max(patience, 2 * _ANSWER_S))
    except (RayError, GetTimeoutError) as error:
        raise Failure(f"the actors do not start; is the same troupe installed in the Python of every host? {error}") from None
    for name, (address, host) in zip(actors, places, strict=True):
        _say(f"{name} on {address} (Ray's node {host[:12]})")
    return actors


def _not_sharing(actors, directory):
    """The nodes whose hosts do not see what this process writes beside the run directory."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(prefix=".troupe-", dir=directory.parent) as marker:
        path = str(directory.parent / pathlib.Path(marker.name).name)
        sees = ray.get([actor.has.remote(path) for actor in actors.values()], timeout=_ANSWER_S)
    return [name for name, seen in zip(actors, sees, strict=True) if not seen]


def _fetch(actors, names, directory):
    """Copies the run from the hosts that do not share it, the chief's last, as what all have is the chief's to say."""
    fetched, hosts = True, set()
    for name in sorted(names, key=lambda each: each == "chief"):
        try:
            host, _ = ray.get(actors[name].where.remote(), timeout=_ANSWER_S)
            if host in hosts:
                continue  # nodes of one host have one home folder
            hosts.add(host)
            chunks = actors[name].files.options(num_returns="streaming").remote(str(directory), _NOT_FETCHED)
            fetch.unpack((ray.get(chunk, timeout=2 * _ANSWER_S) for chunk in chunks), directory)
        except (RayError, GetTimeoutError, tarfile.TarError, OSError) as error:
            _say(f"{name}: its files of the run could not be fetched: {str(error).splitlines()[0]}")
            fetched = False
    return fetched


def _launch(arguments, nodes, actors, directory):
    """Runs `troupe up` to its end, and returns its exit code."""
    with tempfile.TemporaryDirectory(prefix="troupe-ray-") as temporary:
        folder = pathlib.Path(temporary)
        python = [sys.executable, "-ISs", relay.__file__]
        via = folder / "ray"  # its name stands in the launcher's lines
        via.write_text(f'#!/bin/sh\nexec {shlex.join([*python, "connect", str(folder / "socket")])} "$@"\n')
        via.chmod(0o700)
        (folder / "hosts.toml").write_text(hosts_file(nodes))
        command = [*python, "guard", str(os.getpid()), PROGRAM, "up", folder / "hosts.toml", arguments.config, "--via", via, *_settings(arguments)]
        for name in _PASSED_ON:
            if (value := getattr(arguments, name[2:].replace("-", "_"))) is not None:
                command += [name, value]
        command += ["--deterministic"] * arguments.deterministic
        command += ["--resume" if arguments.resume else "--run-dir", directory]
        with relay.RelayServer(str(folder / "socket"), RayPlaces(actors)):
            # In a session of its own: the terminal's Ctrl-C comes to this process alone, which passes it on.
            launcher = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, lambda got, _: launcher.send_signal(got))
            code = launcher.wait()
    return code if code >= 0 else 128 - code


def _check_address():
    """Ray itself waits some minutes for a host that does not answer."""
    host, _, port = os.environ.get("RAY_ADDRESS", "").rpartition(":")
    if host and "/" not in host and port.isdecimal():
        try:
            socket.create_connection((host, int(port)), _ANSWER_S).close()
        except OSError as error:
            raise Failure(f"there is no Ray cluster at RAY_ADDRESS, {host}:{port}: {error}") from None


def train(arguments: argparse.Namespace) -> int:
    plan = _plan(arguments)
    nodes = plan["nodes"]
    bundles = bundles_of(nodes, arguments.resource)
    directory = pathlib.Path(arguments.resume or arguments.run_dir or f"runs/{plan['name']}-{time.strftime('%Y%m%d-%H%M%S')}")
    _check_address()
    try:
        ray.init(address="auto", log_to_driver=False, logging_level="warning")
    except ConnectionError as error:
        raise Failure(f"there is no Ray cluster here: {error}") from None
    group = _reserve(bundles, arguments.strategy, arguments.wait)
    try:
        actors = _start_actors(group, nodes, bundles, arguments.wait)
        apart = _not_sharing(actors, directory)
        if apart and arguments.resume:
            raise Failure(f"--resume {directory}: expected a directory that all hosts share; {', '.join(apart)} do not see it")
        if apart:
            _say(f"{directory} is not on storage that all hosts share: each records its part there, from its home folder on, and it is "
                 "fetched at the end")
        else:
            _say(f"{directory} is on storage that all hosts share")
        code = _launch(arguments, nodes, actors, directory)
        if apart and directory.exists() and not _fetch(actors, apart, directory):
            code = code or 1
        return code
    finally:
        with contextlib.suppress(Exception):  # Ray may have gone; with this process both end anyway
            remove_placement_group(group)
            ray.shutdown()


def main(words: list[str] | None = None) -> int:
    arguments = _arguments(words)
    if ray is None:
        print("troupe.ray: ray is not installed for this Python: pip install ray", file=sys.stderr)
        return 1
    try:
        return train(arguments)
    except Failure as failure:
        print(f"troupe.ray: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # before there was a launcher to pass it on to
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
