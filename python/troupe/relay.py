"""A relay for `troupe up --via`: reaches places that are no hosts of ssh's, through a process that can.

Three parts, which meet over a Unix socket and know no scheduler. `connect` is the command that the launcher calls as it
would call ssh: it takes its own input and output to the socket. `RelayServer` is at the other end of that socket, in the
process that can reach the places. `Place` is the far end, in the place itself: it runs the command there.

This file needs nothing but Python's standard library, so that it starts fast as a script: `relay.py connect SOCKET PLACE -- ...`.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shlex
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Protocol

RESTARTING = 254  # exit code: the place's owner is starting it again (kPlaceRestarting of the launcher)
UNREACHABLE = 255  # as ssh's
_HEADER = struct.Struct(">cI")  # what comes to the launcher's side: b"o", a length, output; b"x", an exit code
_REQUEST_MAX = 1 << 20
_CHUNK = 1 << 16
_PR_SET_PDEATHSIG = 1


class Restarting(Exception):
    """The place is not there, and its owner is starting it again."""


class Lost(Exception):
    """The place is not there; the message says why."""


class Places(Protocol):
    """What a RelayServer reaches. Methods are called from a thread for each command; they raise Restarting or Lost."""

    def run(self, place: str, token: str, command: str) -> Iterator[bytes | int]:
        """Starts the command there; gives b"" once it runs, then its output as it comes, and last its exit code."""

    def feed(self, place: str, token: str, data: bytes) -> None:
        """Hands its standard input on; b"" ends that. Returns soon, whatever the place does."""


class Place:
    """The far end: runs commands here, each for as long as its input is held open. Thread-safe."""

    def __init__(self, host: str, path: str = "", folder: str | None = None) -> None:
        """host: how others reach this place, which the nodes are told; path: what comes first in PATH; folder: where
        commands start, by default the home folder, as with ssh."""
        self._environment = os.environ | {"TROUPE_HOST": host, "PATH": f"{path}:{os.environ.get('PATH', '')}".strip(":")}
        self.folder = pathlib.Path(folder or os.path.expanduser("~"))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def run(self, token: str, command: str) -> Iterator[bytes | int]:
        """As Places.run. The command is words for a shell, but no shell is between: what it starts must notice the end
        of its input, as `troupe tether` does, since that is all that this process can promise to whoever kills it."""
        try:
            process = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, bufsize=0, cwd=self.folder, env=self._environment,
                                       start_new_session=True)
        except OSError as error:
            yield f"{shlex.split(command)[0]}: {error.strerror}\n".encode()
            yield 127 if isinstance(error, FileNotFoundError) else 126
            return
        self._processes[token] = process
        try:
            yield b""
            while data := os.read(process.stdout.fileno(), _CHUNK):
                yield data
            status = process.wait()
            yield status if status >= 0 else 128 - status
        finally:  # also when nobody takes the output any more: the tether then ends what it holds
            self.feed(token, b"")
            process.stdout.close()
            del self._processes[token]

    def feed(self, token: str, data: bytes) -> None:
        """Hands input on to what run() has started; b"" ends it."""
        process = self._processes.get(token)
        with contextlib.suppress(OSError, ValueError):  # it may have ended, or its input has
            if process and not data:
                process.stdin.close()
            while process and data:
                data = data[process.stdin.write(data) or 0:]

    def has(self, path: str) -> bool:
        """Whether this file is here."""
        return (self.folder / path).exists()


class RelayServer:
    """Takes what `connect` brings to its places. A context manager; runs on threads of its own."""

    def __init__(self, path: str, places: Places) -> None:
        self._places = places
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)  # in a folder of the user's alone
        self._listener.listen(64)
        self._count = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> RelayServer:
        return self

    def __exit__(self, *_) -> None:
        self._listener.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # closed
            self._count += 1
            threading.Thread(target=self._serve, args=(connection, f"{os.getpid()}-{self._count}"), daemon=True).start()

    def _serve(self, connection, token):
        with connection, contextlib.suppress(OSError):  # a launcher that has gone needs no answer
            connection.settimeout(60)
            request, rest = _read_request(connection)
            connection.settimeout(None)
            place = request["place"]
            try:
                code = self._run(connection, place, token, request["command"], rest)
            except Restarting:
                code = RESTARTING
            except Lost as lost:
                _send(connection, b"o", f"{lost}\n".encode())
                code = UNREACHABLE
            connection.sendall(_HEADER.pack(b"x", code))

    def _run(self, connection, place, token, command, rest):
        outputs = self._places.run(place, token, command)
        feeder = None
        try:
            for output in outputs:
                if isinstance(output, int):
                    return output
                if feeder is None:  # it runs now, and can be fed
                    feeder = threading.Thread(target=self._feed, args=(connection, place, token, rest), daemon=True)
                    feeder.start()
                if output:
                    _send(connection, b"o", output)
        finally:
            with contextlib.suppress(Restarting, Lost):
                self._places.feed(place, token, b"")
        raise Lost(f"{place}: its output ended without an exit code")

    def _feed(self, connection, place, token, rest):
        with contextlib.suppress(OSError, Restarting, Lost):  # who reads the output hears of it
            if rest:
                self._places.feed(place, token, rest)
            while data := connection.recv(_CHUNK):
                self._places.feed(place, token, data)
        with contextlib.suppress(Restarting, Lost):
            self._places.feed(place, token, b"")


def _send(connection, kind, data):
    connection.sendall(_HEADER.pack(kind, len(data)) + data)


def _read_request(connection):
    """The line that comes first, and what came behind it."""
    got = b""
    while b"\n" not in got:
        more = connection.recv(_CHUNK)
        if not more or len(got) > _REQUEST_MAX:
            raise OSError("no request")
        got += more
    line, rest = got.split(b"\n", 1)
    return json.loads(line), rest


def _read_exactly(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise OSError("the relay has gone")
        data += more
    return data


def connect(path: str, place: str, command: str) -> int:
    """Runs the command in the place, with this process's standard input and output, and returns its exit code."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(path)
        connection.sendall(json.dumps({"place": place, "command": command}).encode() + b"\n")

        def take_input():
            with contextlib.suppress(OSError):
                while data := os.read(0, _CHUNK):
                    connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)

        threading.Thread(target=take_input, daemon=True).start()
        while True:
            kind, number = _HEADER.unpack(_read_exactly(connection, _HEADER.size))
            if kind == b"x":
                return number
            data = _read_exactly(connection, number)
            while data:
                data = data[os.write(1, data):]
    except OSError as error:
        print(f"relay: {path}: {error}", file=sys.stderr)
        return UNREACHABLE


def guard(parent: int, command: list[str]) -> None:
    """Becomes the command, which gets SIGTERM when the parent ends, however it ends; does nothing when it has already."""
    import ctypes  # `connect` starts for every node, and does without

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == parent:
        os.execv(command[0], command)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["connect"] and len(arguments) > 4 and arguments[3] == "--":
        code = connect(arguments[1], arguments[2], " ".join(arguments[4:]))
        os._exit(code)  # the thread that reads the input is not waited for
    if arguments[:1] == ["guard"] and len(arguments) > 2:
        guard(int(arguments[1]), arguments[2:])
        return 1
    print("usage: relay.py connect SOCKET PLACE -- WORDS... | relay.py guard PARENT COMMAND...", file=sys.stderr)
    return 64


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
