"""How far something is that takes long, on standard error: one line that is rewritten each second on a terminal that can do
it, and a line every 15 s where there is none."""

import os
import shutil
import sys
import threading
import time


def clock(seconds):
    """"1:05", "2:03:00"."""
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}" if minutes >= 60 else f"{minutes}:{seconds:02}"


class Progress:
    """Shows what was said last, with the time that has passed and that is left, until its block ends."""

    def __init__(self, what, out=None, every_s=None):
        self.what, self.out = what, out or sys.stderr
        self.live = self.out.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
        self.every_s = every_s or (1 if self.live else 15)
        self.begun = time.monotonic()
        self.step, self.ends_at = "", None
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._show, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        if self.live:
            self._write("\r\x1b[K")

    def say(self, step, left_s=None):
        """What is being done now; left_s: until all is done, None where that is not known."""
        self.step, self.ends_at = step, None if left_s is None else time.monotonic() + left_s

    def line(self):
        now, ends_at = time.monotonic(), self.ends_at
        left = f", about {clock(max(ends_at - now, 0))} left" if ends_at is not None else ""
        return f"{self.what}: {self.step} ({clock(now - self.begun)}{left})"

    def _show(self):
        while not self.ended.wait(self.every_s):
            if self.live:
                columns = shutil.get_terminal_size().columns
                self._write(f"\r{self.line()[:max(columns - 1, 1)]}\x1b[K")
            else:
                self._write(self.line() + "\n")

    def _write(self, text):
        try:
            self.out.write(text)
            self.out.flush()
        except OSError:
            pass  # nobody looks on any more
