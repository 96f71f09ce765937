"""The writer of a capture: a thread that redacts, packs and writes what the loop hands over.

The loop only appends to a queue. What waits there is bounded, and so is the file: beyond either limit the capture ends,
with its reason as its last entry, and the console goes on.
"""

from __future__ import annotations

import itertools
import os
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from actions.base.clock import Clock, SystemClock
from actions.base.errors import ConfigError
from actions.base.files import PRIVATE_FILE
from actions.capture.entries import FIRST_LINE, AnyEntry, Began, Stopped, Ticked, encoded

DEFAULT_LIMIT_BYTES = 1 << 30
FLUSH_SECONDS = 1.0
"""A console that is killed loses the last of them at most."""
_TICK_SECONDS = 5.0
_WAITING_BYTES = 64 << 20
"""More does not wait for a slow disk."""
_LEVEL = 1
_GZIP = 31
_ROOM_BYTES = 1 << 12
"""Of the limit, for the last entry."""
_JOIN_SECONDS = 1.0
_RECORD_BYTES = 200
"""Size of an entry beside its data."""

Work = Callable[[], Iterable[AnyEntry]]
"""Makes entries, on the thread."""


class CaptureWriter:
    """A capture that is being written. `put` and `put_work` may be called from any thread.

    Args:
        file: Must not exist, or be empty.
        limit_bytes: The file does not become longer.
        program: Version of the program.
        region: AWS region of the console.
        demo_speed: Of the embedded cluster's workloads; 0 for any other cluster.
        clock: Time.
        changed: Called on the thread when the capture has stopped by itself.

    Raises:
        ConfigError: It exists, or cannot be written.
    """

    def __init__(
        self,
        file: Path,
        *,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
        program: str = "",
        region: str = "",
        demo_speed: float = 0.0,
        clock: Clock | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.file = file
        self.stopped = ""
        """The reason that nothing more is kept, as a sentence; empty while it is."""
        self.written_bytes = 0
        self.changed = changed
        self._limit_bytes = limit_bytes
        self._clock = clock or SystemClock()
        self._began_at = self._clock.monotonic()
        self._ids = itertools.count(1)
        self._waiting: deque[tuple[AnyEntry | Work, int]] = deque()
        self._waiting_bytes = 0
        self._guard = threading.Lock()
        self._news = threading.Event()
        self._is_closing = False
        self._descriptor = _opened(file)
        self._packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
        self._held_bytes = 0
        """Bytes in the packer, not packed."""
        machine = f"{os.uname().sysname} {os.uname().machine}"
        self._write(self._packer.compress(FIRST_LINE))
        wall = self._clock.now().timestamp()
        self._pack(Began(wall=wall, program=program, system=machine, region=region, demo_speed=demo_speed))
        self._flush(zlib.Z_SYNC_FLUSH)  # from here on it is a capture, whatever happens
        self._thread = threading.Thread(target=self._run, name="eksml-capture", daemon=True)
        self._thread.start()

    @property
    def at(self) -> float:
        """The time in the capture: seconds since its begin."""
        return self._clock.monotonic() - self._began_at

    def next_id(self) -> int:
        """Return a number for a request or session, used once."""
        return next(self._ids)

    def put(self, entry: AnyEntry, size: int = 0) -> None:
        """Keep an entry, written soon.

        Args:
            entry: It holds no secrets.
            size: Bytes of its data.
        """
        self._enqueue(entry, size)

    def put_work(self, work: Work, size: int) -> None:
        """Keep the entries that `work` returns when it is called on the thread, in the order of these calls.

        Args:
            work: Called once; may redact.
            size: Bytes that it holds until then.
        """
        self._enqueue(work, size)

    def close(self) -> None:
        """Write what waits, and end the file. Waits a second at most for a slow disk."""
        self._is_closing = True
        self._news.set()
        self._thread.join(_JOIN_SECONDS)

    def _enqueue(self, item: AnyEntry | Work, size: int) -> None:
        if self.stopped or self._is_closing:
            return
        size += _RECORD_BYTES
        with self._guard:
            is_full = self._waiting_bytes + size > _WAITING_BYTES
            if not is_full:
                self._waiting_bytes += size
                self._waiting.append((item, size))
        if is_full:
            self._stop("the disk takes it too slowly")
        elif self._waiting_bytes > _WAITING_BYTES // 4:
            self._news.set()

    def _run(self) -> None:
        ticked_at = 0.0
        try:
            while not self._is_closing and not self.stopped:
                self._news.wait(FLUSH_SECONDS)
                self._news.clear()
                self._drain()
                if self.at - ticked_at >= _TICK_SECONDS:
                    ticked_at = self.at
                    self._pack(Ticked(at=self.at, wall=self._clock.now().timestamp()))
                self._flush(zlib.Z_SYNC_FLUSH)
            self._drain()
            self._finish(self.stopped)
        except OSError as error:
            self._stop(f"{self.file} cannot be written: {os.strerror(error.errno or 0)}")
        finally:
            os.close(self._descriptor)
            self._waiting.clear()

    def _drain(self) -> None:
        while self._waiting and not self.stopped:
            with self._guard:
                item, size = self._waiting.popleft()
                self._waiting_bytes -= size
            for entry in item() if callable(item) else (item,):
                self._pack(entry)

    def _pack(self, entry: AnyEntry) -> None:
        if self.stopped:
            return
        data = encoded(entry)
        if self.written_bytes + self._held_bytes + len(data) + _ROOM_BYTES > self._limit_bytes:
            self._flush(zlib.Z_SYNC_FLUSH)  # what the packer holds counts by its real size
            if self.written_bytes + len(data) + _ROOM_BYTES > self._limit_bytes:
                self._stop(f"it has reached its limit of {self._limit_bytes:,} bytes")
                return
        self._write(self._packer.compress(data))
        self._held_bytes += len(data)

    def _flush(self, mode: int) -> None:
        if self._held_bytes:
            self._write(self._packer.flush(mode))
            self._held_bytes = 0

    def _finish(self, why: str) -> None:
        self._write(self._packer.compress(encoded(Stopped(at=self.at, why=why))))
        self._write(self._packer.flush(zlib.Z_FINISH))

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        self.written_bytes += len(data)

    def _stop(self, why: str) -> None:
        if not self.stopped:
            self.stopped = why
            self._news.set()
            self.changed()


def _opened(file: Path) -> int:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
        if os.fstat(descriptor).st_size:
            os.close(descriptor)
            raise ConfigError(f"{file} exists, and a capture does not replace it.", hint="Name another file.")
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}.", hint="Name another file.") from error
    return descriptor
