#!/usr/bin/env python3
"""Tests of the hostile clients: a careful listener refuses them all, and each kind of carelessness is seen."""

import json
import pathlib
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
from harness.bad_peers import WELCOME, header  # noqa: E402
from harness.certificates import Forge  # noqa: E402
from harness.testing import main, needs  # noqa: E402

LIMIT_S = 1.0
URI = "troupe://run/actor/node-1"


class Server:
    """Listens on loopback and hands each connection to `serve`, on a thread, until the test ends."""

    def __init__(self, case, serve):
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self._listener.getsockname()[1]
        self._serve = serve
        case.addCleanup(self._listener.close)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._run, args=(client,), daemon=True).start()

    def _run(self, client):
        with client:
            try:
                self._serve(client)
            except (OSError, ssl.SSLError):
                pass


@needs("openssl")
class BadPeersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        forge = Forge(cls.folder.name)
        cls.authority = forge.authority("run")
        cls.server_pem = forge.issue("server", cls.authority, "troupe://run/chief/chief")
        cls.certificates = pathlib.Path(cls.folder.name) / "certificates.json"
        cls.certificates.write_text(json.dumps({
            "good": str(forge.issue("good", cls.authority, URI)),
            "bad": {what: str(pem) for what, pem in forge.all_bad(cls.authority, URI).items()}}), encoding="utf-8")

    def context(self, verify=ssl.CERT_REQUIRED, level=2):
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version = ssl.TLSVersion.TLSv1_3
        made.load_cert_chain(self.server_pem)
        made.load_verify_locations(self.authority)
        made.verify_mode = verify
        made.set_ciphers(f"HIGH:@SECLEVEL={level}")
        return made

    def attack(self, serve):
        """{input: verdict}."""
        port = Server(self, serve).port
        command = [sys.executable, str(HERE / "harness/bad_peers.py"), "127.0.0.1", str(port), str(self.certificates),
                   str(LIMIT_S)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        results = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertGreater(len(results), 25)
        return {result["input"]: result["verdict"] for result in results}

    def careful(self, context, welcome=True, timeout_s=LIMIT_S):
        def serve(client):
            client.settimeout(timeout_s)
            with context.wrap_socket(client, server_side=True) as peer:
                if welcome:
                    peer.sendall(WELCOME)
                got = b""
                while len(got) < len(WELCOME) + 16 and (more := peer.recv(len(WELCOME) + 16 - len(got))):
                    got += more
                if got == WELCOME + header(1000, sequence=1):
                    while peer.recv(2000):
                        pass
        return serve

    def not_refused(self, serve):
        return {what for what, verdict in self.attack(serve).items() if verdict != "refused"}

    def test_an_authority_names_its_run(self):
        self.assertEqual(Forge.run_of(self.authority), "run")

    def test_a_careful_listener_refuses_everything(self):
        self.assertEqual(self.not_refused(self.careful(self.context())), set())

    def test_a_listener_without_tls_is_seen(self):
        seen = self.not_refused(lambda client: client.sendall(b"HTTP/1.1 400 Bad Request\r\n" + client.recv(99)))
        self.assertIn("B1 HTTP", seen)

    def test_a_listener_that_asks_for_no_certificate_is_seen(self):
        seen = self.not_refused(self.careful(self.context(ssl.CERT_NONE), timeout_s=3))
        self.assertLessEqual({"B8 no certificate", "B8 another authority's", "B8 expired", "B8 not yet valid"}, seen)

    def test_a_listener_that_takes_weak_keys_is_seen(self):
        self.assertEqual(self.not_refused(self.careful(self.context(level=0))), {"B8 an RSA key of 1024 bits"})

    def test_a_listener_without_a_deadline_is_seen(self):
        seen = self.not_refused(self.careful(self.context(), timeout_s=30))
        self.assertLessEqual({"B2 silence", "B2 a byte now and then", "B2 300 silent ones",
                              "B4 1 bytes of a frame, then nothing"}, seen)
        self.assertNotIn("B8 no certificate", seen)


if __name__ == "__main__":
    main()
