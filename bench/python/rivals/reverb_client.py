#!/usr/bin/env python3
"""Reverb's Python client on a server in another process of this host: rival of bench/python/replay_client.py. Tables,
transitions and calls are those of bench/replay/rivals/reverb_replay.py. Nothing is encrypted."""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "replay/rivals"))
import reverb
from reverb_replay import insert, report, sample, tables

ITEMS = 1000


def serve():
    server = reverb.Server(tables())  # which ends with its last reference
    print(server.port, flush=True)
    sys.stdin.read()  # until the client ends


def main():
    server = subprocess.Popen([sys.executable, __file__, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    address = f"localhost:{server.stdout.readline().strip()}"
    client = reverb.Client(address)
    for name, row in (("uniform", "client_sample_256"), ("prioritized", "client_prioritized_256")):
        insert(client, name, ITEMS)
        report(row, sample(client, address, name, update=name == "prioritized"))
    server.stdin.close()
    server.wait(30)


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
