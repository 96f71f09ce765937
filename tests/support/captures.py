"""Captures made by hand: what a cluster sent at which second, and a clock that is moved."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from actions.capture.entries import (
    FIRST_LINE,
    Answered,
    AnswerEnded,
    AnswerPart,
    AnyEntry,
    Asked,
    Began,
    Connected,
    encoded,
)
from actions.capture.reader import CaptureReader
from actions.replay.index import CaptureIndex, read_index

WALL = datetime(2026, 11, 23, 14, 0, tzinfo=UTC).timestamp()
SERVER = "https://cluster"


class MovedClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(WALL + self.seconds - 100.0, UTC)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


def thing(name: str, *, namespace: str = "default", kind: str = "Pod", **more: Any) -> dict[str, Any]:
    """An object."""
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", **more.pop("metadata", {})}
    return {"kind": kind, "apiVersion": "v1", "metadata": meta, **more}


def event(word: str, item: dict[str, Any]) -> bytes:
    """A watch event."""
    return json.dumps({"type": word, "object": item}, separators=(",", ":")).encode() + b"\n"


def end_of_list() -> bytes:
    """The bookmark behind a streamed list."""
    annotations = {"k8s.io/initial-events-end": "true"}
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "9", "annotations": annotations}})


class MadeCapture:
    """Records of a capture, written by hand."""

    def __init__(self) -> None:
        self.records: list[AnyEntry] = [
            Began(wall=WALL),
            Connected(session=1, context="arn:cluster", cluster="cluster", server=SERVER, namespace="default"),
        ]
        self._ids = 1

    def ask(self, at: float, path: str, *, form: str = "stream", accept: str = "application/json", **query: str) -> int:
        """Begin a request; return its number."""
        self._ids += 1
        pairs = tuple(query.items())
        self.records.append(Asked(at=at, id=self._ids, session=1, form=form, path=path, query=pairs, accept=accept))
        return self._ids

    def watch(self, at: float, path: str, items: Iterable[dict[str, Any]] = ()) -> int:
        """Begin a watch with a streamed list."""
        number = self.ask(at, path, watch="true", sendInitialEvents="true")
        self.records.append(Answered(at=at, id=number, content_type="application/json"))
        self.part(at, number, b"".join(event("ADDED", item) for item in items) + end_of_list())
        return number

    def part(self, at: float, number: int, data: bytes) -> None:
        """Add a part of an answer."""
        self.records.append(AnswerPart(at=at, id=number, data=data))

    def end(self, at: float, number: int, **more: Any) -> None:
        """End an answer."""
        self.records.append(AnswerEnded(at=at, id=number, **more))

    def answer(self, at: float, path: str, document: object, **query: str) -> None:
        """Add a whole answer."""
        number = self.ask(at, path, form="call", **query)
        self.records.append(Answered(at=at, id=number))
        self.part(at, number, json.dumps(document).encode())
        self.end(at, number)

    def data(self) -> bytes:
        """The bytes of the file, unpacked."""
        return FIRST_LINE + b"".join(map(encoded, self.records))

    def write(self, file: Path) -> Path:
        """Write the file."""
        file.write_bytes(gzip.compress(self.data()))
        return file

    def index(self, folder: Path) -> CaptureIndex:
        """Read it."""
        return read_index(CaptureReader(self.write(folder / "made.capture")))
