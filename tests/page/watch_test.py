#!/usr/bin/env python3
"""`troupe watch` without a browser: who gets in, how many, what comes of command lines that are wrong, what the terminal
and Prometheus see, and `troupe status` of runs within one process.

    TROUPE_PROGRAM=build/release/bin/troupe python3 tests/page/watch_test.py
"""

import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser import PROGRAM, ROOT, Watch, wait_until  # noqa: E402
from recorded import instance, make_run, write_status  # noqa: E402


CONFIG = """env = "cartpole-swingup"
max_env_steps = 2000
[metrics]
every_s = 0.1
[replay]
min_items = 300
samples_per_insert = 1
[d4pg]
policy_layers = [16]
critic_layers = [16]
[learner]
batch_size = 16
[evaluator]
episodes = 1
"""


def troupe(*arguments, env=None):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=60, env=env)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class WatchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.connections = []
        self.run_folder = make_run(self.folder, "mine")
        write_status(self.run_folder, [instance("actor", 0), instance("actor", 1, idle_s=4, waits_for="out", restarts=1)],
                     channels=[{"from": "actor", "from_port": "out", "to": "actor", "to_port": "in", "kind": "latest", "capacity": 1}])

    def watch(self, *arguments):
        watch = Watch(*arguments)
        self.addCleanup(lambda: watch.process.poll() is None and watch.end())
        return watch

    def ask(self, watch, path, method="GET", host=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", watch.port, timeout=20)
        self.addCleanup(connection.close)
        self.connections.append(connection)
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host or f"127.0.0.1:{watch.port}")
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse()

    def cookie(self, watch):
        answer = self.ask(watch, watch.link.split(str(watch.port), 1)[1])
        self.assertEqual((answer.status, answer.headers["Location"]), (303, "/"))
        cookie = answer.headers["Set-Cookie"]
        self.assertIn("HttpOnly", cookie)
        self.assertIn("SameSite=Strict", cookie)
        return cookie.split(";")[0]

    def test_only_who_has_the_link_gets_in(self):
        watch = self.watch(self.run_folder)
        cookie = self.cookie(watch)
        self.assertIn(b"<title>Troupe", self.ask(watch, "/", Cookie=cookie).read())
        self.assertEqual(json.loads(self.ask(watch, "/api/runs", Cookie=cookie).read())["runs"], ["mine"])
        self.assertEqual(self.ask(watch, "/").status, 403)
        self.assertEqual(self.ask(watch, "/?token=" + "0" * 32).status, 403)
        self.assertEqual(self.ask(watch, "/", host="evil.example", Cookie=cookie).status, 421)
        for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS"):
            self.assertEqual(self.ask(watch, "/", method=method, Cookie=cookie).status, 405)
        for path in ("/nothing", "/api/live?run=1", "/api/live?run=x", "/api/live", "/file?run=0&path=config.toml",
                     "/file?run=0&path=../mine/config.toml", "/file?run=0&path=/etc/passwd", "/..%2f..%2fetc/passwd"):
            self.assertEqual(self.ask(watch, path, Cookie=cookie).status, 404, path)
        self.assertEqual(watch.end(), 0)

    def test_it_listens_on_loopback_alone(self):
        watch = self.watch(self.run_folder)
        wanted = f":{watch.port:04X}"
        listens = [line.split()[1] for name in ("tcp", "tcp6") for line in pathlib.Path(f"/proc/net/{name}").read_text().splitlines()
                   if line.split()[1].endswith(wanted) and line.split()[3] == "0A"]
        self.assertEqual(listens, [f"0100007F{wanted}"])

    def test_eight_pages_at_a_time_and_a_place_that_is_left_is_free(self):
        watch = self.watch(self.run_folder)
        cookie = self.cookie(watch)
        streams = [self.ask(watch, "/api/live?run=0", Cookie=cookie) for _ in range(8)]
        for stream in streams:
            self.assertTrue(stream.readline().startswith(b"data: {"))
        self.assertEqual(self.ask(watch, "/api/live?run=0", Cookie=cookie).status, 503)
        self.assertEqual(self.ask(watch, "/", Cookie=cookie).status, 200)
        streams[0].close()
        self.connections[-10].close()
        again = wait_until(lambda: (answer := self.ask(watch, "/api/live?run=0", Cookie=cookie)).status == 200 and answer, "free place")
        self.assertTrue(again.readline().startswith(b"data: "))

    def test_a_link_that_stays_the_same(self):
        token = self.folder / "token"
        first = self.watch(self.run_folder, "--token", token)
        self.assertEqual(stat.S_IMODE(token.stat().st_mode), 0o600)
        link = first.link.split("token=")[1]
        self.assertEqual(first.end(), 0)
        self.assertEqual(self.watch(self.run_folder, "--token", token).link.split("token=")[1], link)
        token.chmod(0o644)
        refused = troupe("watch", self.run_folder, "--token", token)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("chmod 600", refused.stderr)

    def test_command_lines_that_are_wrong_get_one_line(self):
        for arguments, code, word in ((["nowhere"], 1, "not the directory of a run"), ([self.run_folder, "--port", "70000"], 64, "--port"),
                                      ([self.run_folder, "--prometheus", "0.0.0.0:9464", "--token", self.folder / "t"], 64, "127.0.0.1:PORT"),
                                      ([self.run_folder, "--prometheus", "127.0.0.1:9464"], 64, "--token FILE")):
            done = troupe("watch", *arguments)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(word, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        taken = self.watch(self.run_folder)
        done = troupe("watch", self.run_folder, "--port", taken.port)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"127.0.0.1:{taken.port} cannot be listened on", done.stderr)

    def test_the_terminal_shows_the_same_once_where_it_is_none(self):
        done = troupe("watch", self.run_folder, "--terminal")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("mine  training", done.stdout)
        self.assertRegex(done.stdout, r"actor x2 +2 up +1 .*1 of 2, 4.0s on out")
        self.assertIn("evaluator return", done.stdout)
        self.assertNotIn("\x1b", done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 100)

    def test_status_of_a_run_within_one_process_has_its_instances(self):
        shown = troupe("status", self.run_folder)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("in one process", shown.stdout)
        self.assertIn("actor-1", shown.stdout)
        status = json.loads(troupe("status", self.run_folder, "--json").stdout)
        self.assertEqual(status["processes"], 1)
        self.assertEqual([one["name"] for one in status["instances"]], ["actor-0", "actor-1"])
        copied = self.folder / "copied"
        shutil.copytree(self.run_folder, copied)
        self.assertIn("actor-1", troupe("status", copied).stdout)

    def test_a_deterministic_run_says_its_topology_and_is_asked_nothing(self):
        (self.folder / "c.toml").write_text(CONFIG)
        run = self.folder / "fixed"
        done = troupe("train", self.folder / "c.toml", "--deterministic", "--run-dir", run, "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        status = json.loads((run / "status.json").read_text())
        self.assertEqual({one["state"] for one in status["instances"]}, {"not asked"})
        self.assertIn(("actor", "replay", "stream"), {(one["from"], one["to"], one["kind"]) for one in status["channels"]})
        shown = troupe("watch", run, "--terminal").stdout
        self.assertRegex(shown, r"replay.batches > learner +[1-9]")  # by channels.csv

    def test_a_page_beside_a_run_that_begins_and_ends_with_it(self):
        (self.folder / "c.toml").write_text(CONFIG.replace("2000", "1000000000"))
        train = subprocess.Popen([PROGRAM, "train", self.folder / "c.toml", "--page", "--quiet", "--run-dir", self.folder / "new"],
                                 stdout=subprocess.PIPE, text=True)
        self.addCleanup(train.stdout.close)
        self.addCleanup(train.wait)
        self.addCleanup(train.kill)
        link = re.search(r"http://127\.0\.0\.1:(\d+)(/\?token=\w+)", train.stdout.readline())
        connection = http.client.HTTPConnection("127.0.0.1", int(link[1]), timeout=20)
        self.addCleanup(connection.close)
        connection.request("GET", link[2])
        self.assertEqual(connection.getresponse().status, 303)
        train.send_signal(signal.SIGINT)
        self.assertEqual(train.wait(60), 0)
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(link[1])), 5)

    def test_prometheus(self):
        port, token = free_port(), self.folder / "token"
        watch = self.watch(self.run_folder, "--token", token, "--prometheus", f"127.0.0.1:{port}")
        secret = token.read_text().strip()
        url = f"http://127.0.0.1:{port}/metrics"
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url, timeout=10)
        self.assertEqual(refused.exception.code, 403)
        refused.exception.close()
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {secret}"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
            text = answer.read().decode()
        self.assertIn('troupe_wait_seconds{run="mine",node="chief",role="actor",index="1",for="out"} 4\n', text)
        self.assertIn('troupe_steps_per_second{run="mine",role="actor"}', text)
        self.assertIn('troupe_evaluation{run="mine",role="evaluator",value="return"} 490\n', text)
        self.assertIn('troupe_env_steps_total{run="mine"} 4900\n', text)
        self.assertNotIn("instance=", text)
        self.dashboard_asks_for_what_there_is(text)
        if not shutil.which("promtool"):
            self.skipTest("not installed: prometheus")
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=30)
        self.assertEqual((checked.returncode, checked.stdout, checked.stderr), (0, "", ""))
        self.scraped_by_a_real_one(port, token)
        self.assertEqual(watch.end(), 0)

    def dashboard_asks_for_what_there_is(self, text):
        """Every name in the expressions of the Grafana dashboard is one that a run can have."""
        panels = json.loads((ROOT / "deploy/grafana/troupe.json").read_text())["panels"]
        asked = {name for panel in panels for target in panel.get("targets", ()) for name in re.findall(r"troupe_\w+", target["expr"])}
        self.assertGreater(len(asked), 8)
        source = (ROOT / "page/prometheus.cpp").read_text()
        columns = {"troupe_" + re.sub(r"_s$", "_seconds", re.sub(r"_per_s$", "_per_second", name.split("/")[1]))
                   for name in re.findall(r"`([\w-]+/\w+)`", (ROOT / "docs/metrics.md").read_text())}
        known = set(re.findall(r"troupe_\w+", text)) | set(re.findall(r'"(troupe_\w+)"', source)) | columns
        self.assertEqual(asked - known, set())

    def scraped_by_a_real_one(self, port, token):
        own = free_port()
        config = self.folder / "prometheus.yml"
        config.write_text(f"""scrape_configs:
- job_name: troupe
  scrape_interval: 500ms
  scrape_timeout: 500ms
  authorization: {{credentials_file: {token}}}
  static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
""")
        server = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder}/tsdb",
                                   f"--web.listen-address=127.0.0.1:{own}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)

        def answer():
            try:
                query = "troupe_instance_restarts_total%7Brole%3D%22actor%22%7D"
                with urllib.request.urlopen(f"http://127.0.0.1:{own}/api/v1/query?query={query}", timeout=5) as page:
                    return json.load(page)["data"]["result"]
            except OSError:
                return None

        found = wait_until(answer, "series in Prometheus", 30)
        self.assertEqual({one["metric"]["index"]: one["value"][1] for one in found}, {"0": "0", "1": "1"})
        self.assertNotIn("exported_instance", found[0]["metric"])


if __name__ == "__main__":
    unittest.main()
