#!/usr/bin/env python3
"""What ssh and its server are to `troupe up`, between hosts of a Network: a remote command with its input, output and
exit status over one TCP connection that suffers every fault of the network. It protects nothing: for tests only.

    remote_shell.py serve                                on each host; prints "up"
    remote_shell.py ssh [OPTION]... ADDRESS -- WORD...   as ssh: the words, joined, are a shell's command there

Like ssh it ends with the command's exit status, or with 255 when it cannot reach the host or loses it; a silent host
counts as lost after 6 s, as ServerAliveInterval=2 and ServerAliveCountMax=3 would have it. The server closes the input
of a command whose connection is gone, and leaves the command itself alone.
"""

import contextlib
import os
import socket
import struct
import subprocess
import sys
import threading

PORT = 22
LOST = 255
CHUNK = 1 << 16


def endure(connection):
    """Notices within 6 s that the other side is gone, whether data is on its way or not."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (socket.TCP_KEEPIDLE, 2), (socket.TCP_KEEPINTVL, 2), (socket.TCP_KEEPCNT, 2), (
            socket.TCP_USER_TIMEOUT, 6000):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def read_exactly(connection, count):
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionError("the other side is gone")
        data += part
    return data


def send_part(connection, data):
    connection.sendall(struct.pack("<I", len(data)) + data)


def read_part(connection):
    return read_exactly(connection, *struct.unpack("<I", read_exactly(connection, 4)))


def serve_one(connection):
    """Parts that come: the command, then its input, an empty one at its end. Parts that go: its output, an empty one at
    its end, its exit status."""
    with connection:
        endure(connection)
        child = subprocess.Popen(["sh", "-c", read_part(connection)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT)

        def feed():
            with contextlib.suppress(OSError), child.stdin:
                while part := read_part(connection):
                    child.stdin.write(part)
                    child.stdin.flush()

        threading.Thread(target=feed, daemon=True).start()
        with contextlib.suppress(OSError):
            while part := os.read(child.stdout.fileno(), CHUNK):
                send_part(connection, part)
            send_part(connection, b"")
            status = child.wait()
            send_part(connection, str(status if status >= 0 else 128 - status).encode())
        child.wait()


def serve():
    server = socket.create_server(("0.0.0.0", PORT), backlog=32)
    print("up", flush=True)
    while True:
        connection, _ = server.accept()
        threading.Thread(target=serve_one, args=(connection,), daemon=True).start()


def ssh(words):
    end = words.index("--")
    address, command = words[end - 1].split("@")[-1], " ".join(words[end + 1:])
    try:
        connection = socket.create_connection((address, PORT), timeout=10)
        connection.settimeout(None)
        endure(connection)
        send_part(connection, command.encode())

        def feed():
            with contextlib.suppress(OSError):
                while part := os.read(0, CHUNK):
                    send_part(connection, part)
                send_part(connection, b"")

        threading.Thread(target=feed, daemon=True).start()
        while part := read_part(connection):
            os.write(1, part)
        return int(read_part(connection))
    except OSError as error:
        print(f"remote_shell: {address}: {error}", file=sys.stderr)
        return LOST


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    os._exit(ssh(sys.argv[2:]))  # the thread that reads the input may never end
