"""A capture in an archive for a bug report: all its texts pass the archive's filter, and a replay still reads it."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from actions.base.errors import ConfigError
from actions.capture.entries import FIRST_LINE, AnswerPart, AnyEntry, RunFile, RunWritten, encoded
from actions.capture.reader import CaptureReader
from actions.run.support.pieces import Piece

MOST_BYTES = 64 << 20
"""The largest capture that is put into an archive, unpacked."""
_AS_THEY_ARE = frozenset({"form", "method", "digest", "error", "reason", "run", "token"})
"""Fields of entries that a replay compares with words of its own."""

Clean = Callable[[str], str]


def capture_piece(file: Path) -> Piece:
    """Return a capture of a session as a piece of an archive.

    Raises:
        UnreadableError: It is not a capture, or damaged.
        ConfigError: It is too large.
    """
    reader = CaptureReader(file)
    for _ in reader.entries():
        if reader.unpacked_bytes > MOST_BYTES:
            raise ConfigError(f"{file} has more than {MOST_BYTES >> 20} MiB.", hint="Name a shorter capture.")
    return Piece(f"capture/{file.name}", "a capture of a session", filtered=lambda clean: filtered(file, clean))


def filtered(file: Path, clean: Clean) -> bytes:
    """Return a capture whose texts have passed a filter, packed by gzip.

    Raises:
        UnreadableError: It cannot be read.
    """
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as target:
        target.write(FIRST_LINE)
        for entry in CaptureReader(file).entries():
            target.write(encoded(_cleaned(entry, clean)))
    return packed.getvalue()


def _cleaned(entry: AnyEntry, clean: Clean) -> AnyEntry:
    match entry:
        case AnswerPart() | RunFile():
            return replace(entry, data=_clean_bytes(entry.data, clean))
        case RunWritten():
            rows = [replace(row, json=_clean_bytes(row.json.encode(), clean).decode()) for row in entry.rows]
            return replace(entry, rows=tuple(rows))
    values = {name: getattr(entry, name) for name in entry.__struct_fields__ if name not in _AS_THEY_ARE}
    return msgspec.structs.replace(entry, **{name: _walked(value, clean) for name, value in values.items()})


def _clean_bytes(data: bytes, clean: Clean) -> bytes:
    """Return a text without secrets; if it was JSON, so is what comes back."""
    before = data.decode("utf-8", "surrogateescape")
    after = clean(before)
    if after == before:
        return data
    if _is_json(before) and not _is_json(after):
        return b"\n".join(msgspec.json.encode(_walked(msgspec.json.decode(line), clean)) for line in data.splitlines())
    return after.encode("utf-8", "surrogateescape")


def _is_json(text: str) -> bool:
    try:
        for line in text.splitlines():
            msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False
    return True


def _walked(value: Any, clean: Clean) -> Any:
    match value:
        case str():
            return clean(value)
        case dict():
            return {clean(key): _walked(item, clean) for key, item in value.items()}
        case list() | tuple():
            return type(value)(_walked(item, clean) for item in value)
    return value
