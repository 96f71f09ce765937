"""Container logs on disk, as a container runtime writes them and kwok reads them."""

from __future__ import annotations

from pathlib import Path

from actions.sandbox.kubelet.log_file import LogEntry, stamp


class CriLog:
    """The log of one instance of a container: `TIME stdout F text`, with P for a part of a long line.

    Source: the CRI logging format of the kubelet (KEP "CRI: container log").
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)

    def append(self, entry: LogEntry) -> None:
        """Write one entry."""
        tag = b"F" if entry.data.endswith(b"\n") else b"P"
        self._file.write(stamp(entry.at_ns) + b"stdout " + tag + b" " + entry.data.removesuffix(b"\n") + b"\n")

    def close(self) -> None:
        """Nothing more will come."""
        self._file.close()


class RunMarker:
    """Tells the gate which instance of a container runs, and when it has ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)

    def running(self, instance: int) -> None:
        """Instance `instance`, counted from 0, is at work."""
        self._write(str(instance))

    def ended(self, instance: int) -> None:
        """It has written all that it will ever write."""
        self._write(f"{instance} ended")

    def _write(self, text: str) -> None:
        scratch = self._path.with_suffix(".new")
        scratch.write_text(text, encoding="ascii")
        scratch.replace(self._path)
