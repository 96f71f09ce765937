"""Errors, cut by what the operator does next."""

from __future__ import annotations

import traceback
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_ENDS = (".", "!", "?", ":", ";", "…", ",", "`")
"""Signs that end a sentence, or lead to the hint; words of others may lack one."""


class ConsoleError(Exception):
    """A failure, in one sentence for the operator.

    Args:
        message: One sentence that names the thing: file and line, object, stage or host.
        hint: What to do about it, as an imperative. Empty if there is nothing to do.
    """

    others: Sequence[ConsoleError] = ()
    """Of several mistakes in one input, all behind this one, which is the first."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def sentence(self) -> str:
        """The message with its hint, ready to print on one line."""
        text = " ".join(self.message.split())
        if not self.hint:
            return text
        return f"{text}{'' if text.endswith(_ENDS) else '.'} {' '.join(self.hint.split())}"

    def sentences(self) -> list[str]:
        """The sentence of it, and of each of the others."""
        return [one.sentence() for one in (self, *self.others)]


class ConfigError(ConsoleError):
    """A setting, a flag or a kubeconfig is wrong: fix it."""


class UsageError(ConfigError):
    """The program cannot be used in this way, with this, or here. The program ends with exit code 2."""


class InputError(ConsoleError):
    """A file that a person wrote is wrong. The program ends with exit code 2.

    Args:
        message: What is wrong.
        file: Path as the person would type it.
        line: One-based; 0 if unknown.
        column: One-based; 0 if unknown.
        hint: What to write instead.
    """

    def __init__(self, message: str, *, file: str = "", line: int = 0, column: int = 0, hint: str = "") -> None:
        where = file
        if file and line:
            where = f"{file}:{line}:{column}" if column else f"{file}:{line}"
        super().__init__(f"{where}: {message}" if where else message, hint=hint)
        self.text = message
        self.file = file
        self.line = line
        self.column = column


class UnreadableError(InputError):
    """A file that a command was given cannot be read: name another one."""


class BlueprintError(InputError):
    """A blueprint is wrong: fix the file."""


class ScriptError(InputError):
    """A script is wrong: fix the file."""


class ParameterError(ConsoleError):
    """A parameter is missing, unknown or out of its bounds."""


class AccessError(ConsoleError):
    """Not logged in, or not allowed."""


class UnreachableError(ConsoleError):
    """There is no answer: wait, or check the network. It never means *it is gone*."""


class RefusedError(ConsoleError):
    """The other side understood the request and refused it."""


class MissingError(ConsoleError):
    """The thing does not exist."""


class UnknownNameError(MissingError):
    """A name that is in none of the program's own files: choose another one. The program ends with exit code 2."""


class ConflictError(ConsoleError):
    """Another party changed or owns the thing."""


class FormatError(ConsoleError):
    """A text does not have the form its producer promised."""


class ReaderDefectError(FormatError):
    """A text that a reader does not survive: a defect of the reader."""


class JournalError(ConsoleError):
    """The run's journal is damaged, locked or of another version."""


class ToolError(ConsoleError):
    """A program that we started failed.

    Args:
        argv: What was run, without secrets.
        exit_code: Its exit code; negative for a signal.
        tail: The end of its output, cleaned.
    """

    def __init__(self, argv: Sequence[str], *, exit_code: int, tail: str, hint: str = "") -> None:
        last = next((line for line in reversed(tail.splitlines()) if line.strip()), "no output")
        super().__init__(f"{' '.join(argv[:3])} ended with {exit_code}: {last}", hint=hint)
        self.argv = tuple(argv)
        self.exit_code = exit_code
        self.tail = tail


def describe_bug(error: Exception) -> str:
    """Return a clause for an exception of any kind, with the line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f", {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"a bug of eksml-tui ({type(error).__name__}: {error}{where})"


@contextmanager
def reading() -> Iterator[None]:
    """Let a reader of foreign text raise nothing but its own errors: any other exception becomes a `FormatError`."""
    try:
        yield
    except (ConsoleError, OSError):
        raise
    except Exception as error:
        raise ReaderDefectError(f"It cannot be read because of {describe_bug(error)}.") from error


class Mistakes:
    """The mistakes of one input, so that all of them are named at once."""

    def __init__(self) -> None:
        self.found: list[ConsoleError] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Keep a mistake that is found in the context, with its others, and go on behind it."""
        try:
            yield
        except ConsoleError as error:
            self.found += [error, *error.others]

    def require_none(self) -> None:
        """Raise the first one in the file, with all others.

        Raises:
            ConsoleError: There is one.
        """
        if self.found:
            first, *others = sorted(self.found, key=_place)
            for other in others:
                other.others = ()
            first.others = others
            raise first


def _place(error: ConsoleError) -> tuple[int, int]:
    return (error.line, error.column) if isinstance(error, InputError) else (0, 0)


def nearest_hint(word: str, known: Collection[str], otherwise: str | None = None) -> str:
    """Return a hint about a word that is none of those that are known.

    Args:
        word: As it was written.
        known: All that it can be.
        otherwise: The hint if none is written like it, instead of a list of all.
    """
    import difflib  # not at the start

    if near := difflib.get_close_matches(word, known, n=3):
        return f"Did you mean {' or '.join(near)}?"
    if otherwise is not None:
        return otherwise
    return f"Known: {', '.join(sorted(known))}." if known else "There is none yet."
