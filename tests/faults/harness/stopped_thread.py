"""Stops one thread of another process while all its others go on: what SIGSTOP cannot do. By ptrace, whose calls must
all come from one thread; the stop ends with this process too."""

import ctypes
import os
import pathlib

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def _ptrace(request, thread):
    if _libc.ptrace(request, thread, None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of thread {thread}")


def busiest_thread(process):
    """The one that has used a processor for longest."""
    def ticks(task):
        fields = (task / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    return int(max(pathlib.Path(f"/proc/{process}/task").iterdir(), key=ticks).name)


class StoppedThread:
    """The thread sleeps until go_on()."""

    def __init__(self, thread):
        self._thread = thread
        _ptrace(PTRACE_SEIZE, thread)
        _ptrace(PTRACE_INTERRUPT, thread)
        os.waitpid(thread, 0x40000000)  # __WALL: until it has stopped

    def go_on(self):
        _ptrace(PTRACE_DETACH, self._thread)
