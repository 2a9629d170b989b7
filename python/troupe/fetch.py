"""A folder as a stream of bytes and back, for a run that was recorded on other hosts (troupe.ray)."""

from __future__ import annotations

import contextlib
import pathlib
import queue
import tarfile
import threading
from collections.abc import Iterable, Iterator

_CHUNK = 1 << 20
_CHUNKS_MAX = 16
_PATIENCE_S = 60


class _Writer:
    def __init__(self, chunks):
        self._chunks = chunks

    def write(self, data):
        self._chunks.put(bytes(data), timeout=_PATIENCE_S)
        return len(data)


def pack(folder: pathlib.Path, without: tuple[str, ...]) -> Iterator[bytes]:
    """The folder's files, but for what has one of these names, in chunks of 1 MiB; nothing where there is no folder. At
    most 16 chunks wait in memory. Raises OSError; queue.Empty when the disk gives nothing for a minute."""
    if not folder.is_dir():
        return
    chunks: queue.Queue[bytes | OSError | None] = queue.Queue(_CHUNKS_MAX)

    def keep(entry):
        return None if pathlib.PurePath(entry.name).name in without else entry

    def write():
        end = None
        with contextlib.suppress(queue.Full):  # nobody takes it any more
            try:
                with tarfile.open(fileobj=_Writer(chunks), mode="w|", bufsize=_CHUNK) as archive:
                    archive.add(folder, ".", filter=keep)
            except OSError as error:
                end = error
            chunks.put(end, timeout=_PATIENCE_S)

    threading.Thread(target=write, daemon=True).start()
    while (chunk := chunks.get(timeout=_PATIENCE_S)) is not None:
        if isinstance(chunk, OSError):
            raise chunk
        yield chunk


class _Reader:
    def __init__(self, chunks):
        self._chunks, self._rest = iter(chunks), b""

    def read(self, size):
        while len(self._rest) < size and (chunk := next(self._chunks, None)) is not None:
            self._rest += chunk
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


def unpack(chunks: Iterable[bytes], folder: pathlib.Path) -> int:
    """Writes the files of what pack() has given, and nothing outside of the folder; returns how many. Raises
    tarfile.TarError where the stream is damaged or ends early."""
    count = 0
    reader = _Reader(chunks)
    if not (head := reader.read(512)):
        return 0
    reader._rest = head + reader._rest
    with tarfile.open(fileobj=reader, mode="r|", bufsize=_CHUNK) as archive:
        for entry in archive:
            path = pathlib.PurePosixPath(entry.name)
            if not entry.isfile() or path.is_absolute() or ".." in path.parts:
                continue  # folders come with their files
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.extractfile(entry) as source, target.open("wb") as file:
                while data := source.read(_CHUNK):
                    file.write(data)
            count += 1
    return count
