"""A headless Chromium, driven through chromedriver by the standard library alone, and a `troupe watch` to look at.

Chromium's --virtual-time-budget would hang on a page with an open EventSource; chromedriver has no such trouble.
"""

import base64
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("TROUPE_PROGRAM", str(ROOT / "build/release/bin/troupe"))


def missing():
    """Why there can be no browser here; empty when there can."""
    lacks = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
    return f"not installed: {', '.join(lacks)} (Debian's chromium and chromium-driver)" if lacks else ""


def wait_until(condition, what, timeout_s=30):
    """Returns the first true value of condition()."""
    end = time.monotonic() + timeout_s
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"no {what} within {timeout_s} s")
        time.sleep(0.05)


class Watch:
    """A `troupe watch` of some runs."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([PROGRAM, "watch", *map(str, arguments)], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        self.said = []
        self.link = None
        for line in self.process.stdout:
            self.said.append(line)
            if found := re.search(r"http://127\.0\.0\.1:(\d+)/\?token=\w+", line):
                self.link, self.port = found[0], int(found[1])
                break
        if self.link is None:
            raise AssertionError(f"troupe watch says: {''.join(self.said)}")

    def rss_mb(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s*(\d+)", status)[1]) / 1024

    def end(self):
        """Its exit code after Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(10)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


class Browser:
    def __init__(self, width=1400, height=1600, dark=False):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                       start_new_session=True, env={**os.environ, "HOME": self.folder.name})
        self.session = None
        port = None
        for line in self.driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                port = int(found[1])
                break
        self.base = f"http://127.0.0.1:{port}/session"
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                     f"--user-data-dir={self.folder.name}/profile", f"--window-size={width},{height}", "--hide-scrollbars",
                     "--disable-background-networking"]
        if dark:
            arguments.append("--blink-settings=preferredColorScheme=0")
        wanted = {"browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL"}, "goog:chromeOptions": {"args": arguments}}
        try:
            made = self._call("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        except Exception:
            self.end()
            raise
        self.session = made["sessionId"]

    def _call(self, method, path, body=None):
        url = self.base + (f"/{self.session}" if self.session else "") + path
        request = urllib.request.Request(url, method=method, data=None if body is None else json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"chromedriver: {error.read().decode()[:500]}") from error

    def open(self, url):
        self._call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """What `return ...` in the script gives."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def text(self, selector="body"):
        return self.run("const found = document.querySelector(arguments[0]); return found ? found.innerText : ''", selector)

    def ticks(self):
        return self.run("return Number(document.body.dataset.ticks || 0)")

    def log(self):
        """What the console and the network have complained of since the last call."""
        return [entry["message"] for entry in self._call("POST", "/se/log", {"type": "browser"})]

    def screenshot(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self._call("GET", "/screenshot")))

    def end(self):
        if self.session:
            try:
                self._call("DELETE", "")
            except (AssertionError, OSError):
                pass
        try:
            os.killpg(self.driver.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.driver.wait()
        self.driver.stdout.close()
        self.folder.cleanup()
