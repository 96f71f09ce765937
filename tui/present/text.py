"""Values as plain text: durations, times, shortened names, wrapped paragraphs. No function reads a clock."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec
from rich.cells import cell_len, chop_cells

from actions.base.wording import duration, seconds_in
from tui.settings.keymap import Keymap
from tui.settings.keys import KeyContext, keys_of, names_of

if TYPE_CHECKING:
    from actions.run.state.view import UnusedDevices
    from tui.feeds.services import ConsoleServices

_DAY_SECONDS = 86_400
_DIGITS = re.compile(r"\d+")
_DIGITS_LENGTH = 12


def unused_text(unused: UnusedDevices, now: float) -> str:
    """Format unused accelerators: `3 of 8 accelerators at 0% for 5m12s`, perhaps with `, 7 of 8 workers answered`."""
    answered, workers = unused.answered, unused.workers
    silent = f", {answered} of {workers} workers answered" if answered < workers else ""
    return f"{unused.count} of {unused.of} accelerators at 0% for {duration(now - unused.since)}{silent}"


def clock_of(at_ns: int) -> str:
    """Format the time of day, UTC, with milliseconds: `10:42:07.123`; blanks if unknown (0)."""
    if at_ns == 0:
        return " " * 12
    milliseconds = at_ns // 1_000_000 % 86_400_000
    seconds, fraction = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:03}"


_CLOCK = re.compile(r"(?:(\d{4})-(\d\d)-(\d\d)[T ])?(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?Z?", re.ASCII)


def moment_in(text: str, *, newest_ns: int) -> int | None:
    """Read a moment, UTC, in nanoseconds since the epoch; `None` if it is none.

    Args:
        text: `14:02`, `14:02:07.5`, `2026-11-20 14:02`, or `-10m` before the newest line.
        newest_ns: The newest line: a time of day is the last one that is not after it.
    """
    if text.startswith("-"):
        seconds = seconds_in(text[1:])
        return None if seconds is None else newest_ns - int(seconds * 1e9)
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction = found.groups()
    newest = datetime.fromtimestamp(newest_ns // 1_000_000_000, UTC)
    date = (int(year), int(month), int(day)) if year else (newest.year, newest.month, newest.day)
    try:
        moment = datetime(*date, int(hour), int(minute), int(second or 0), tzinfo=UTC)
    except ValueError:
        return None
    at_ns = int(moment.timestamp()) * 1_000_000_000 + int((fraction or "").ljust(9, "0"))
    return at_ns - _DAY_SECONDS * 1_000_000_000 if not year and at_ns > newest_ns else at_ns


def clock_text(seconds: float, *, now: float) -> str:
    """Format a moment, UTC: `10:42:07` today, with the date before it on other days: `2026-11-20 10:42`.

    Args:
        seconds: Since the epoch.
        now: Since the epoch.
    """
    clock = clock_of(round(seconds * 1e9))[:8]
    if seconds // _DAY_SECONDS == now // _DAY_SECONDS:
        return clock
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d} {clock[:5]}"


def age(now: float, then: float) -> str:
    """Format the time since `then`; `?` if unknown.

    Args:
        now: Seconds since the epoch.
        then: Seconds since the epoch; 0 is unknown.
    """
    return "?" if then <= 0 else duration(now - then)


@lru_cache(1 << 17)
def natural_key(text: str) -> str:
    """Return what a name is sorted by: `node-2` before `node-10`."""
    return _DIGITS.sub(lambda found: found[0].zfill(_DIGITS_LENGTH), text) if _DIGITS.search(text) else text


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Drop the leading words (separated by `-`) that all of `names` share; a lone name keeps its last two words.

    `esm1nv-pretraining-master-0`, `esm1nv-pretraining-worker-3` become `master-0`, `worker-3`; with workers
    alone they keep that word.
    """
    if not names:
        return {}
    words = [name.split("-") for name in names]
    shortest = min(len(parts) for parts in words)
    if len(set(names)) == 1:
        shared = max(0, shortest - 2)
    else:
        shared = 0
        while shared < shortest - 1 and len({parts[shared] for parts in words}) == 1:
            shared += 1
        if shared and any(parts[shared].isdigit() for parts in words):
            shared -= 1  # a bare number is not a name
    return {name: "-".join(parts[shared:]) for name, parts in zip(names, words, strict=True)}


_WORDS = re.compile(r"\S+\s*")
_LABEL = re.compile(r" *\S+(?: \S+)*  +")
"""The text before two blanks: a key, a name, a column."""


class WrappedLine(msgspec.Struct, frozen=True):
    """A row of the screen.

    Args:
        text: The characters.
        line: Index of the line that the row is a part of.
    """

    text: str
    line: int


def wrapped_lines(lines: Iterable[str], width: int) -> list[WrappedLine]:
    """Wrap lines into rows of `width` terminal columns; a width of 0 wraps nothing."""
    return [WrappedLine(text, index) for index, line in enumerate(lines) for text in _wrapped(line, width)]


def _wrapped(line: str, width: int) -> Iterator[str]:
    if width <= 0 or cell_len(line) <= width:
        yield line
        return
    indent = " " * _indent(line, width)
    shown = line[: len(line) - len(line.lstrip(" "))]
    is_empty = True
    for word in _WORDS.findall(line.lstrip(" ")):
        if not is_empty and cell_len(shown) + cell_len(word.rstrip()) > width:
            yield shown.rstrip()
            shown, is_empty = indent, True
        rest = word
        while cell_len(shown) + cell_len(rest.rstrip()) > width:
            head = chop_cells(rest, max(2, width - cell_len(shown)))[0]
            yield shown + head
            rest, shown = rest[len(head) :], indent
        shown, is_empty = shown + rest, False
    yield shown.rstrip()


def _indent(line: str, width: int) -> int:
    """Return the indent of rows after the first: under the text behind a label, else two columns."""
    label = _LABEL.match(line)
    if label is not None and label.end() <= width // 2:
        return label.end()
    return min(len(line) - len(line.lstrip(" ")) + 2, width // 2)


_FLAG = r"(?: --(?:even-if-shared|delete-data|yes|help)\b| --[a-z-]+ '?[\w:+]+(?:[-./:]+\w+)*'?)"
_SHELL_LINE = re.compile(
    r"`?eksml-tui (?:runs (approve|cancel|export|limit|park|pause|resume|teardown|terraform|waive)|(launch)) "
    rf"([\w-]+)({_FLAG}*)`?"
)
_DELETE = re.compile(r"kubectl delete -n ([\w-]+)((?: [\w.-]+/[\w-]+(?:\.[\w-]+)*)+)")
_OMITTED = ("--confirm", "--help", "--yes")
"""Flags that the console's own questions make needless."""


def as_keys(text: str, keymap: Keymap, *, shown: str = "", names: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a text of a remedy with keys, or lines after `:`, in the place of its shell lines.

    Args:
        text: Such as `Resume it: eksml-tui runs resume RUN`.
        keymap: The operator's own keys.
        shown: The id of the run on screen, which keys act on.
        names: Short names of runs by id.
    """

    def spoken(line: re.Match[str]) -> str:
        verb, run = line[1] or line[2], line[3]
        flags = [flag[1:] for flag in re.findall(_FLAG, line[4])]
        words = [
            f"{name[2:].replace('-', '_')}={value or 'true'}"
            for name, _, value in (flag.partition(" ") for flag in flags)
            if name not in _OMITTED
        ]
        key = next((row for row in keys_of(KeyContext.RUN) if row.does == verb), None)
        if run == shown and not words and key is not None:
            return names_of(key, keymap)[0]
        if verb == "launch":
            return f":launch {run}"
        named = [] if run == shown else [f"run={names.get(run, run)}"]
        return f":{' '.join([verb, *named, *words])}"

    def deleted(line: re.Match[str]) -> str:
        names = [name.replace("/", f"/{line[1]}/") for name in line[2].split()]
        return f":delete {','.join(names)}"

    text = _DELETE.sub(deleted, text).replace("--existing-cluster", "the form's Use this cluster")
    return _SHELL_LINE.sub(spoken, text)


def console_words(text: str, services: ConsoleServices) -> str:
    """Return a text with the shell lines of its remedies as this console's keys and lines; see `as_keys`."""
    runs = services.runs
    shown = runs.view.id if runs.view is not None else ""
    return as_keys(text, services.settings.keymap, shown=shown, names=runs.names)
