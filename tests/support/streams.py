"""The files of a stage's output, as a test looks at them or spoils them."""

from __future__ import annotations

from pathlib import Path

from actions.run.output.segments import StreamReader, list_stream, tail_name
from actions.run.output.streams import stream_path


def tail_of(folder: Path, stage: str, stream: str) -> Path:
    """Return the open end of a stream, whether there is one or not."""
    place = stream_path(folder, stage, stream)
    listing = list_stream(place)
    return place / tail_name(listing.sealed_end if listing.tail is None else listing.tail)


def segments_of(folder: Path, stage: str, stream: str) -> list[Path]:
    """Return the sealed segments of a stream, in order."""
    place = stream_path(folder, stage, stream)
    return [place / segment.name for segment in list_stream(place).segments]


def append_raw(folder: Path, stage: str, stream: str, data: bytes) -> None:
    """Append bytes to a stream's open end, as no writer does it."""
    path = tail_of(folder, stage, stream)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(data)


def bytes_of(folder: Path, stage: str, stream: str) -> bytes:
    """Return all whole records of a stream."""
    return b"".join(part.data or b"" for part in StreamReader(stream_path(folder, stage, stream)).stretches(0))
