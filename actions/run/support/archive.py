"""The archive itself: every piece passes the filter, and what could not be had is a sentence in its list."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec

from actions.base.clock import format_rfc3339
from actions.base.errors import ConfigError, ConsoleError
from actions.base.files import PRIVATE_FILE
from actions.base.untrusted import one_line, redact
from actions.fleet.quantity import size_text
from actions.run.support.filters import SupportFilter
from actions.run.support.pieces import Piece


class WrittenPiece(msgspec.Struct, frozen=True):
    """One file of a written archive.

    Args:
        name: Its path in the archive.
        size_bytes: Its size, unpacked from the archive; 0 if it could not be had.
        about: What it is, or why it is missing.
        is_missing: It could not be had.
    """

    name: str
    size_bytes: int
    about: str
    is_missing: bool = False


def write_archive(
    file: Path, pieces: Iterable[Piece], chosen: SupportFilter, *, name: str, made_at: datetime
) -> list[WrittenPiece]:
    """Write an archive, 0600, whole or not at all; return what is in it, its list first.

    Args:
        file: The archive; one that exists is refused.
        pieces: Its files.
        chosen: Filters all of them, and their names.
        name: Of the folder in the archive.
        made_at: Time of all files.

    Raises:
        ConfigError: It exists, or cannot be written.
    """
    require_absent(file)
    scratch = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, PRIVATE_FILE)
        with os.fdopen(descriptor, "wb") as opened, tarfile.open(fileobj=opened, mode="w:gz") as archive:
            written = list(_written(archive, pieces, chosen, name=chosen.text(name), made_at=made_at))
        os.link(scratch, file)  # unlike a rename, it replaces nothing
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}.", hint="Name another file.") from error
    finally:
        with suppress(OSError):
            scratch.unlink()
    return written


def require_absent(file: Path) -> None:
    """Refuse a file that exists.

    Raises:
        ConfigError: It does.
    """
    if file.exists() or file.is_symlink():
        raise ConfigError(f"{file} exists.", hint="Name another file.")


def list_text(files: Iterable[WrittenPiece]) -> str:
    """Return a table with a line for each file: size, name, what it is."""
    rows = [("-" if one.is_missing else size_text(one.size_bytes), one.name, one.about) for one in files]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "".join(f"{row[0]:>{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}\n" for row in rows)


def _written(
    archive: tarfile.TarFile, pieces: Iterable[Piece], chosen: SupportFilter, *, name: str, made_at: datetime
) -> Iterator[WrittenPiece]:
    files = []
    for piece in pieces:
        path = chosen.text(piece.name)
        try:
            data = chosen.data(piece.read().encode("utf-8", "replace"))
        except ConsoleError as error:
            reason = one_line(chosen.text(redact(error.sentence())))
            files.append(WrittenPiece(path, 0, f"{piece.about}: not there. {reason}", is_missing=True))
            continue
        _add(archive, f"{name}/{path}", data, made_at)
        files.append(WrittenPiece(path, len(data), piece.about))
    head = f"Made by eksml-tui at {format_rfc3339(made_at)}. Secrets that could be found are hidden; look through it\n"
    text = f"{head}anyway before you send it.\n\n{list_text(files) if files else ''}"
    _add(archive, f"{name}/README.txt", text.encode(), made_at)
    yield WrittenPiece("README.txt", len(text), "this list")
    yield from files


def _add(archive: tarfile.TarFile, path: str, data: bytes, made_at: datetime) -> None:
    member = tarfile.TarInfo(path)
    member.size, member.mode, member.mtime = len(data), PRIVATE_FILE, int(made_at.timestamp())
    archive.addfile(member, io.BytesIO(data))
