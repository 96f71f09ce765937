"""A script that is written while a person works: whole and valid after every step.

The file is replaced in one step each time, so whatever ends the console leaves a script that can be played. A step that
the language would refuse is written as a comment with its reason. Secrets are written by their references alone.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml

from actions.base.clock import format_rfc3339
from actions.base.errors import ConfigError, ConsoleError, ScriptError
from actions.base.files import require_writable, write_private
from actions.base.untrusted import REDACTED, one_line, redact
from actions.base.yamldoc import MAX_BYTES
from actions.script.model import DEFAULT_DEADLINE_SECONDS, DEFAULT_SIZE, default_within
from actions.script.parse import VERSION, parse_script

_ROOM_BYTES = 64 << 10
"""Left of what a script may have, for the remark that ends the recording."""
_DOLLAR = "dollar"
"""The variable for a `$` that begins no variable."""
_OPENING = re.compile(r"\$\{(?:env:([A-Za-z_][A-Za-z0-9_]*)\})?")
_SIZES = range(10, 1000)


class RecordedLine(msgspec.Struct, frozen=True, eq=False):
    """One line of a recording: a step, or a comment, whose verb is `#`."""

    text: str
    verb: str
    seconds: float
    """The step's time limit."""


class Recording:
    """A script that grows step by step.

    Args:
        file: The script. It must not exist, or be empty.
        made_at: Time of its begin.
        size: Columns and rows of the screen.
        remarks: Lines for its head: how it is played.
    """

    def __init__(self, file: Path, *, made_at: datetime, size: tuple[int, int], remarks: Sequence[str]) -> None:
        self.file = file
        self._head = [f"# Recorded by eksml-tui at {format_rfc3339(made_at)}.", *(f"#   {line}" for line in remarks)]
        self._size = size if all(side in _SIZES for side in size) else DEFAULT_SIZE
        self._lines: list[RecordedLine] = []
        self._is_full = False

    def begin(self, verb: str, value: Any) -> None:
        """Write the file, with a first step.

        Raises:
            ConfigError: It exists, or cannot be written.
        """
        require_new(self.file)
        self.add(verb, value)

    def add(self, verb: str, value: Any = None, *, within_seconds: float = 0.0) -> RecordedLine:
        """Add a step, write the file, and return the line. What no script can hold becomes a comment.

        Args:
            verb: A command, or `wait`.
            value: Its arguments: a mapping, a single value, or `None`.
            within_seconds: Its time limit; 0 for the usual one of the verb.

        Raises:
            ConfigError: The file cannot be written; it is as it was, and the step is in the next one that can be.
        """
        plain = _plain(value)
        if within_seconds and isinstance(plain, dict):
            plain["within"] = _minutes(within_seconds)
        text = _step(verb, plain)
        problem = _problem(text)
        if problem:
            return self.remark(f"{one_line(text)[2:]}: {problem}")
        return self._append(
            RecordedLine(f"  {text}", verb, 60 * math.ceil(within_seconds / 60) or default_within(verb))
        )

    def replace_last(self, verb: str, value: Any) -> RecordedLine:
        """Add a step in the place of the last one, if that has the same verb: a filter grows letter by letter.

        Raises:
            ConfigError: See `add`.
        """
        if self._lines and self._lines[-1].verb == verb:
            self._lines.pop()
        return self.add(verb, value)

    def remark(self, text: str) -> RecordedLine:
        """Add a comment, write the file, and return the line.

        Raises:
            ConfigError: See `add`.
        """
        return self._append(RecordedLine(f"  # {one_line(redact(text))}", "#", 0.0))

    def drop(self, line: RecordedLine) -> None:
        """Take a line back and write the file: its command failed.

        Raises:
            ConfigError: See `add`.
        """
        self._lines = [kept for kept in self._lines if kept is not line]
        self._write()

    def data(self) -> bytes:
        """Return the script as it stands."""
        lines = [*self._head, f"eksml-script: {VERSION}"]
        if any(f"${{{_DOLLAR}}}" in line.text for line in self._lines):
            lines.append(f'vars: {{{_DOLLAR}: "$"}}')
        deadline = max(DEFAULT_DEADLINE_SECONDS, math.fsum(line.seconds for line in self._lines))
        lines += [f"size: {self._size[0]}x{self._size[1]}", f"deadline: {_minutes(deadline)}", "steps:"]
        lines += [line.text for line in self._lines]
        return ("\n".join(lines) + "\n").encode("utf-8", "replace")

    def _append(self, line: RecordedLine) -> RecordedLine:
        if not self._is_full:
            self._lines.append(line)
            self._is_full = len(self.data()) > MAX_BYTES - _ROOM_BYTES
            if self._is_full:
                end = "  # The recording ends here: a script cannot be larger."
                self._lines.append(RecordedLine(end, "#", 0.0))
            self._write()
        return line

    def _write(self) -> None:
        try:
            write_private(self.file, self.data(), is_synced=False)
        except OSError as error:
            raise _unwritable(self.file, error) from error


def require_new(file: Path) -> None:
    """Refuse a file that is there, or that cannot be written.

    Raises:
        ConfigError: See above.
    """
    try:
        is_there = file.stat().st_size > 0
    except FileNotFoundError:
        is_there = False
    except OSError as error:
        raise _unwritable(file, error) from error
    if is_there:
        raise ConfigError(f"{file} exists.", hint="Name another file for the recording, or remove it.")
    require_writable(file)


def _unwritable(file: Path, error: OSError) -> ConfigError:
    return ConfigError(f"{file} cannot be written: {error.strerror}.", hint="Name another file for the recording.")


def _step(verb: str, value: Any) -> str:
    if value in (None, {}):
        return f"- {verb}"
    flow = yaml.safe_dump(value, default_flow_style=True, width=math.inf, allow_unicode=True, sort_keys=False)
    return f"- {verb}: {flow.removesuffix('...' + chr(10)).strip()}"


def _problem(step: str) -> str:
    """Return the reason why the language refuses a step; empty if it does not."""
    if REDACTED in step:
        return "it holds a secret that has no reference"
    if "\n" in step:
        return "it has several lines"
    script = f"eksml-script: {VERSION}\nvars: {{{_DOLLAR}: '$'}}\nsteps:\n  {step}\n"
    try:
        parse_script(script.encode(), file="", environment=os.environ)
    except ScriptError as error:
        return error.message
    except (ConsoleError, UnicodeError) as error:
        return str(error)
    return ""


def _plain(value: Any) -> Any:
    """Return the value with each text as a script writes it: secrets by reference, no variables by accident."""
    match value:
        case str():
            return _OPENING.sub(_escaped, redact(value))
        case Mapping():
            return {key: _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
    return value


def _escaped(match: re.Match[str]) -> str:
    is_reference = match[1] is not None and match[1] in os.environ
    return match[0] if is_reference else f"${{{_DOLLAR}}}" + match[0][1:]


def _minutes(seconds: float) -> str:
    return f"{math.ceil(seconds / 60)}m"
