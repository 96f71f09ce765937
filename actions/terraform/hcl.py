"""The blocks of Terraform's configuration language, as far as they must be known without Terraform.

Read are the headers of blocks and the texts of their attributes, wherever the lines end; comments, quoted texts with
templates and heredocs are passed over. What is not of the language is passed over, too: Terraform refuses it with a
better sentence. The time taken grows with the length of the text alone.

Source: hashicorp/hcl, `hclsyntax/spec.md`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import msgspec

from actions.base.errors import FormatError
from actions.base.files import read_file

_MOST_BYTES = 8 << 20
"""Of all files of one root."""
_DEEPEST = 32
"""Blocks, and templates, further inside than this are passed over."""


class TerraformBlock(msgspec.Struct, frozen=True):
    """A block: `variable "region" { default = "" }`."""

    headers: tuple[tuple[str, ...], ...]
    """Words and quoted texts before the brace, of the blocks around it and, last, of itself: `("output", "vpc_id")`."""
    attributes: Mapping[str, str]
    """The texts behind the `=` of attributes, as written, without comments."""

    def text(self, name: str) -> str:
        """Return the quoted text that an attribute is; empty if it is not there, or anything else."""
        value = self.attributes.get(name, "")
        return value[1:-1] if value[:1] == '"' == value[-1:] and _after_quoted(value, 1) == len(value) else ""


def source_of(root: Path) -> str:
    """Return the text of all `.tf` files of a root, by name, each ended by a newline; empty without any.

    Raises:
        FormatError: One cannot be read, or they are too large.
    """
    texts, left = [], _MOST_BYTES
    for path in sorted(root.glob("*.tf")):
        try:
            data = read_file(path, left)
        except OSError as error:
            raise FormatError(
                f"{path} cannot be read: {error.strerror}.", hint="Correct the Terraform root."
            ) from error
        texts.append(data.decode(errors="replace") + "\n")
        left -= len(data)
    return "".join(texts)


class OuterModule(msgspec.Struct, frozen=True):
    """A call of a local module that is not in the folder of its root."""

    file: Path
    line: int
    source: str


def outer_modules(root: Path) -> Iterator[OuterModule]:
    """Yield the calls of local modules that lead out of a root, also those of the modules in it.

    Raises:
        FormatError: A file cannot be read, or they are too large.
    """
    top = os.path.normpath(root)
    seen, left = {top}, [top]
    while left:
        folder = left.pop()
        for block in blocks_in(source_of(Path(folder))):
            source = block.text("source") if len(block.headers) == 1 and block.headers[0][:1] == ("module",) else ""
            called = os.path.normpath(os.path.join(folder, source))
            if not source.startswith(("./", "../")) or called in seen:
                continue
            seen.add(called)
            if Path(os.path.relpath(called, top)).parts[:1] == ("..",):
                yield OuterModule(*_place_of(Path(folder), source), source)
            else:
                left.append(called)


def _place_of(folder: Path, source: str) -> tuple[Path, int]:
    """Return the file and the line of a module's source."""
    written = re.compile(rf'\bsource\s*=\s*"{re.escape(source)}"')
    for path in sorted(folder.glob("*.tf")):
        text = read_file(path, _MOST_BYTES).decode(errors="replace")
        if found := written.search(text):
            return path, text.count("\n", 0, found.start()) + 1
    return folder, 0


_TOKEN = re.compile(
    r"""(?P<comment>\#|//)
    |(?P<remark>/\*)
    |<<-?[ ]*(?P<tag>\w{1,200})[^\n]*\n
    |(?P<quote>")
    |(?P<word>[A-Za-z_][\w-]*)
    |(?P<other>==|=>|!=|<=|>=)
    |(?P<sign>[={}()\[\]\n])""",
    re.X,
)


@lru_cache(maxsize=32)
def blocks_in(text: str) -> tuple[TerraformBlock, ...]:
    """Return the blocks of a text, each before the one around it."""
    return tuple(_read(text))


def _read(text: str) -> Iterator[TerraformBlock]:
    reader = _Reader()
    at = 0
    while match := _TOKEN.search(text, at):
        begin, at = match.span()
        match match.lastgroup:
            case "comment":
                at = _found(text, "\n", at)
                reader.skip(text, begin, at)
            case "remark":
                at = _found(text, "*/", at) + 2
                reader.skip(text, begin, at)
            case "tag":
                at = _after_heredoc(text, match["tag"], at)
            case "quote":
                at = _after_quoted(text, at)
                reader.word(text[begin + 1 : at - 1])
            case "word":
                reader.word(match["word"])
            case "sign":
                yield from reader.sign(match["sign"], text, begin)
    yield from reader.end(text)


class _Reader:
    """The state between two tokens: the open blocks, and the statement that has begun in the innermost one."""

    def __init__(self) -> None:
        self._open: list[tuple[tuple[str, ...], dict[str, str]]] = []
        self._words: list[str] = []
        self._value: list[str] | None = None
        """The parts of an attribute's value; `None` outside of one."""
        self._begin = 0
        """The place from which on nothing of the value is in its parts."""
        self._brackets = 0

    def word(self, word: str) -> None:
        """Take a word, or a quoted text."""
        if self._value is None:
            self._words.append(word)

    def skip(self, text: str, begin: int, end: int) -> None:
        """Leave a comment out of a value."""
        if self._value is not None:
            self._value.append(text[self._begin : begin])
            self._begin = end

    def sign(self, sign: str, text: str, at: int) -> Iterator[TerraformBlock]:
        """Take a sign that may end a statement, or begin or end a block."""
        if self._value is not None and (self._brackets or sign not in "\n}"):
            self._brackets += (sign in "{([") - (sign in "})]")
            return
        self._end_value(text, at)
        if sign == "=" and len(self._words) == 1:
            self._value, self._begin = [], at + 1
        elif sign == "{":
            self._open.append((tuple(self._words), {}))
            self._words = []
        elif sign == "}":
            yield from self._closed()
        elif sign == "\n":
            self._words = []

    def end(self, text: str) -> Iterator[TerraformBlock]:
        """Close what is open at the end."""
        self._end_value(text, len(text))
        while self._open:
            yield from self._closed()

    def _end_value(self, text: str, at: int) -> None:
        if self._value is not None and self._open:
            self._open[-1][1][self._words[0]] = "".join((*self._value, text[self._begin : at])).strip()
        if self._value is not None:
            self._value, self._words, self._brackets = None, [], 0

    def _closed(self) -> Iterator[TerraformBlock]:
        self._words = []
        if self._open:
            if len(self._open) <= _DEEPEST:
                yield TerraformBlock(tuple(header for header, _ in self._open), self._open[-1][1])
            self._open.pop()


def _found(text: str, sign: str, at: int) -> int:
    place = text.find(sign, at)
    return len(text) if place < 0 else place


def _after_heredoc(text: str, tag: str, at: int) -> int:
    end = re.compile(rf"^[ \t]*{tag}[ \t]*$", re.M).search(text, at)
    return end.end() if end else len(text)


def _after_quoted(text: str, at: int, depth: int = 0) -> int:
    """Return the place behind the quoted text that begins at `at`; templates in it hold quoted texts of their own."""
    braces = 0
    while at < len(text) and depth <= _DEEPEST:
        if not braces and text[at] == "\\":
            at += 2
        elif not braces and text[at] == '"':
            return at + 1
        elif not braces and text.startswith(("$${", "%%{"), at):
            at += 3
        elif not braces and text.startswith(("${", "%{"), at):
            braces, at = 1, at + 2
        elif braces and text[at] == '"':
            at = _after_quoted(text, at + 1, depth + 1)
        else:
            braces += (text[at] == "{") - (text[at] == "}") if braces else 0
            at += 1
    return min(at, len(text)) if depth <= _DEEPEST else len(text)
