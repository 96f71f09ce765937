"""Defects that are met while a console is up: it goes on, shows a sentence in the place of what it cannot draw, and
writes the traceback to a file.

Not caught are defects outside of widgets and panes: those end the app with a report.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from actions.base.clock import SystemClock, format_rfc3339
from actions.base.errors import ConsoleError, describe_bug
from actions.base.files import private_directory, read_file, state_folder, write_private
from actions.base.untrusted import one_line, plain_text, redact

are_raised = False
"""True in tests, where a defect is a failure."""

_MOST_BYTES = 256 << 10
_known: set[tuple[str, str, int]] = set()
"""Kind and place of those that were written down by this process."""


def defects_path() -> Path:
    """Return the file of tracebacks; it may not exist."""
    return state_folder() / "defects.log"


def sentence_of(error: Exception) -> str:
    """Return a sentence for an error that was caught in a widget or pane; write a defect down, once for each place.

    Raises:
        Exception: The error itself, where `are_raised`.
    """
    if isinstance(error, ConsoleError):
        return one_line(redact(error.sentence()))
    if are_raised:
        raise error
    if _place_of(error) not in _known:
        _known.add(_place_of(error))
        with suppress(OSError, ConsoleError):
            _write(error)
    return one_line(redact(f"This cannot be shown: {describe_bug(error)}. See {defects_path()}."))


@contextmanager
def shown(by: Callable[[str], object], *, is_once: bool = False) -> Iterator[None]:
    """Hand a sentence for whatever goes wrong in the context to `by`, and go on behind it.

    Args:
        by: Shows it.
        is_once: A defect at a place where one was met before is not shown again.

    Raises:
        Exception: The error itself, where `are_raised`.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, it ends nothing
        tell(error, by, is_once=is_once)


def tell(error: Exception, by: Callable[[str], object], *, is_once: bool = False) -> None:
    """Hand the sentence for an error to `by`; see `shown`."""
    is_known = is_once and _place_of(error) in _known
    sentence = sentence_of(error)
    if not is_known:
        by(sentence)


def _write(error: Exception) -> None:
    private_directory(state_folder())
    path = defects_path()
    with suppress(OSError):
        before = read_file(path, 2 * _MOST_BYTES)[-_MOST_BYTES:]
        before = before if len(before) < _MOST_BYTES else before.partition(b"\n")[2]
        write_private(path, before + _report(error), is_synced=False)
        return
    write_private(path, _report(error), is_synced=False)


def _report(error: Exception) -> bytes:
    told = plain_text(redact("".join(traceback.format_exception(error))))[-_MOST_BYTES // 8 :]
    return f"{format_rfc3339(SystemClock().now())}\n{told}\n".encode(errors="replace")


def _place_of(error: Exception) -> tuple[str, str, int]:
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    return type(error).__name__, last.filename if last else "", (last.lineno or 0) if last else 0
