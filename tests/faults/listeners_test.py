#!/usr/bin/env python3
"""What the real program listens on, in every role and placement, and what each of those sockets does to who may not come
in. Needs neither root nor hosts of its own. The program's path comes in the environment variable TROUPE_PROGRAM.
"""

import concurrent.futures
import os
import pathlib
import random
import signal
import socket
import stat
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
from harness import bad_peers  # noqa: E402
from harness.certificates import Forge  # noqa: E402
from harness.small_run import PATIENCE_S, SmallRun, descendants  # noqa: E402
from harness.testing import main, needs  # noqa: E402

HANDSHAKE_LIMIT_S = 5.0
# Every role there is, one of them over two processes.
ALL_ROLES = ("placement.actors.nodes=2", "actors.inference=server", "placement.inference.nodes=1")
# Of bad_peers.py, which a scenario tries completely: strangers, and who is of the run but says nonsense.
INPUTS = {"B1 random bytes", "B1 HTTP", "B1 a frame of 4 GiB without TLS", "B2 a byte now and then", "B8 no certificate",
          "B8 another authority's", "B8 expired", "B8 TLS 1.2", "B3 a frame of 4 GiB", "B4 17 bytes of a frame, then nothing"}


def sockets_of(pids):
    """{inode: pid} of the open sockets of processes."""
    owners = {}
    for pid in pids:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(f"/proc/{pid}/fd/{name}")
            except OSError:
                continue  # closed meanwhile
            if target.startswith("socket:["):
                owners[target[8:-1]] = pid
    return owners


def listeners(pids):
    """[(address, port, pid)] on TCP and [(path, pid)] on Unix sockets; an abstract one's path begins with @."""
    owners = sockets_of(pids)
    inet, local = [], []
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/net/{table}").read_text("ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in owners:  # LISTEN
                address, port = fields[1].split(":")
                raw = b"".join(bytes.fromhex(address[i:i + 8])[::-1] for i in range(0, len(address), 8))
                family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6
                inet.append((socket.inet_ntop(family, raw), int(port, 16), owners[fields[9]]))
    for table in ("udp", "udp6", "raw", "raw6"):
        for line in pathlib.Path(f"/proc/net/{table}").read_text("ascii").splitlines()[1:]:
            if line.split()[9] in owners:
                inet.append((table, 0, owners[line.split()[9]]))
    for line in pathlib.Path("/proc/net/unix").read_text("ascii").splitlines()[1:]:
        fields = line.split()
        if int(fields[3], 16) & 0x10000 and fields[6] in owners:  # __SO_ACCEPTCON
            local.append((fields[7] if len(fields) > 7 else "", owners[fields[6]]))
    return inet, local


class ListenersTest(SmallRun):
    def check_unix(self, local, seen):
        """What shared memory is offered on: a socket in a folder of this user's alone, which says nothing to a peer
        that does not know the secret of the offer."""
        for path, pid in local:
            if path in seen:
                continue
            seen.add(path)
            self.assertTrue(path.startswith("/"), f"{pid} listens on the abstract socket {path!r}")
            try:
                folder = pathlib.Path(path).parent.stat()
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                    client.settimeout(HANDSHAKE_LIMIT_S)
                    client.connect(path)
                    client.sendall(bytes(32))
                    said = client.recv(64)
            except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError, BrokenPipeError):
                continue  # its peer has come, and with that it is gone; or it hung up on us
            except TimeoutError:
                said = b""
            self.assertEqual((stat.S_IMODE(folder.st_mode), folder.st_uid), (0o700, os.getuid()), path)
            self.assertEqual(said, b"", f"{path} answered a stranger")

    def certificates(self):
        forge = Forge(self.folder / "certificates")
        authority = self.run_folder / "security/authority.key"
        uri = f"troupe://{Forge.run_of(authority)}/actor/intruder"
        return {"good": str(forge.issue("intruder", authority, uri)),
                "bad": {what: str(pem) for what, pem in forge.all_bad(authority, uri).items()}}

    def attack(self, targets):
        certificates = self.certificates()
        inputs = [one for one in (*bad_peers.before_identity(certificates, HANDSHAKE_LIMIT_S),
                                  *bad_peers.after_identity(certificates, HANDSHAKE_LIMIT_S)) if one[0] in INPUTS]
        self.assertEqual({what for what, _ in inputs}, INPUTS)
        noise = random.Random(2)

        def hello_of_noise(to):
            return bad_peers.tls(to, certificates["good"], send=bad_peers.WELCOME + noise.randbytes(32),
                                 may_say=lambda said: said in (b"", bad_peers.WELCOME))

        inputs.append(("32 random bytes after a valid handshake", hello_of_noise))
        with concurrent.futures.ThreadPoolExecutor(max_workers=16) as pool:
            tries = {(target, what): pool.submit(act, target) for target in targets for what, act in inputs}
            return {key: one.result(timeout=PATIENCE_S)[0] for key, one in tries.items()}

    def test_a_run_in_one_process_listens_nowhere(self):
        self.start()
        self.wait_for("training", lambda: b"training on" in self.log.read_bytes())
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            self.assertEqual(listeners(descendants(self.launcher.pid)), ([], []))
            time.sleep(0.1)
        self.launcher.send_signal(signal.SIGINT)
        self.assertIn(self.launcher.wait(timeout=PATIENCE_S), (0, 128 + signal.SIGINT))

    @needs("openssl")
    def test_every_socket_of_every_role_refuses_who_may_not_come_in(self):
        self.start("--processes", *(word for setting in ALL_ROLES for word in ("--set", setting)))
        seen = set()

        def all_up():
            try:
                self.check_unix(listeners(descendants(self.launcher.pid))[1], seen)
            except FileNotFoundError:
                pass  # a process has ended between two looks
            return self.all_up()

        before = self.wait_for("all instances up", all_up)
        pids = descendants(self.launcher.pid)
        inet, local = listeners(pids)
        self.check_unix(local, seen)
        self.assertEqual(len(inet), len(before["nodes"]), f"one socket a node: {inet}")
        self.assertEqual({one["role"] for one in before["instances"]},
                         {"actor", "inference", "replay", "learner", "parameters", "evaluator", "metrics"})
        self.assertEqual({address for address, _, _ in inet}, {"127.0.0.1"}, "nobody else's business")
        self.assertEqual(len({pid for _, _, pid in inet}), len(inet))

        verdicts = self.attack([(address, port) for address, port, _ in inet])
        wrong = {key: verdict for key, verdict in verdicts.items() if verdict != "refused"}
        if wrong:
            self.fail_with_log(f"{wrong}")

        def goes_on():
            status = self.all_up()
            return status if status and status["versions"]["learner"] > before["versions"]["learner"] else None

        after = self.wait_for("the run to go on", goes_on)
        self.assertEqual([(one["name"], one["incarnation"]) for one in after["nodes"] + after["instances"]],
                         [(one["name"], one["incarnation"]) for one in before["nodes"] + before["instances"]])
        self.assertEqual(listeners(pids)[0], inet, "nothing new listens")
        self.launcher.send_signal(signal.SIGINT)
        self.assertEqual(self.launcher.wait(timeout=PATIENCE_S), 0)
        log = self.log.read_text(errors="replace")
        for code in ("TRP-S701", "TRP-S702", "TRP-S703", "TRP-S710"):
            self.assertIn(code, log, "the log says why")


if __name__ == "__main__":
    main()
