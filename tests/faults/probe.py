#!/usr/bin/env python3
"""Small network programs that network_test.py runs on hosts. Each prints JSON; times are monotonic, the machine's.

    probe.py echo PORT                      answers datagrams; prints "up"
    probe.py ping ADDRESS PORT COUNT        round trips to an echo, one after the other, in ms; a lost one is null
    probe.py collect PORT                   prints "up", and at SIGTERM [[number, ms on the way], ...] as they arrived
    probe.py send ADDRESS PORT COUNT MS     sends numbered datagrams, one every MS
    probe.py connect ADDRESS PORT           the name of the error of a TCP connect, or "connected"; 1 s at most
    probe.py sink PORT / flood ADDRESS PORT BYTES     seconds that a TCP transfer took
"""

import json
import signal
import socket
import sys
import time


def bound(port):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("0.0.0.0", port))
    print("up", flush=True)
    return server


def echo(port):
    server = bound(int(port))
    while True:
        server.sendto(*server.recvfrom(2048))


def ping(address, port, count):
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.settimeout(0.5)
    times = []
    for number in range(int(count)):
        begin = time.monotonic()
        client.sendto(str(number).encode(), (address, int(port)))
        try:
            while client.recv(2048) != str(number).encode():
                pass  # a late answer to an earlier one
            times.append(1000 * (time.monotonic() - begin))
        except TimeoutError:
            times.append(None)
    print(json.dumps(times))


def collect(port):
    came = []

    def finish(*_):
        print(json.dumps(came))
        sys.exit()

    signal.signal(signal.SIGTERM, finish)
    server = bound(int(port))
    while True:
        number, sent_s = server.recv(2048).split()
        came.append((int(number), 1000 * (time.monotonic() - float(sent_s))))


def send(address, port, count, interval_ms):
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    begin = time.monotonic()
    for number in range(int(count)):
        time.sleep(max(0.0, begin + number * float(interval_ms) / 1000 - time.monotonic()))
        client.sendto(f"{number} {time.monotonic()}".encode(), (address, int(port)))


def connect(address, port):
    try:
        socket.create_connection((address, int(port)), timeout=1).close()
        print('"connected"')
    except OSError as error:
        print(json.dumps(type(error).__name__))


def sink(port):
    server = socket.create_server(("0.0.0.0", int(port)))
    print("up", flush=True)
    client, _ = server.accept()
    while client.recv(1 << 16):
        pass
    client.sendall(b"all")


def flood(address, port, size):
    client = socket.create_connection((address, int(port)), timeout=20)
    begin = time.monotonic()
    client.sendall(bytes(int(size)))
    client.shutdown(socket.SHUT_WR)
    client.recv(3)
    print(json.dumps(time.monotonic() - begin))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
