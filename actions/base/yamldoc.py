"""YAML that people write: read strictly, with the line of every node kept for error messages.

Refused: merge keys, duplicate keys, more than `MAX_BYTES`, `MAX_DEPTH` or `MAX_DIGITS`; and aliases that repeat more
than `MAX_BYTES`, as a 400-byte file can expand without end. Numbers and booleans follow YAML 1.2's core schema, so that
`no`, `on`, `0755` and `12:30` stay texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

from actions.base.errors import InputError
from actions.base.files import read_file
from actions.base.untrusted import is_plain, one_line

MAX_BYTES = 1 << 20
MAX_DEPTH = 100
MAX_DIGITS = 64
"""Characters of a number: any that means something has fewer, and Python reads no decimal of 5000."""

_LONGEST_MESSAGE = 400
"""Characters: messages quote the file, whose texts may be as long as it is."""

E = TypeVar("E", bound=InputError)

Position = tuple[int, int]
"""Line and column, one-based."""

Path_ = tuple[str | int, ...]


class Document:
    """One YAML document: its `value` in plain Python types, and the position of each part.

    Args:
        file: Name for messages.
        value: dict, list, str, int, float, bool or None.
        positions: Line and column by path, e.g. `("stages", 2, "kind")`.
    """

    def __init__(self, file: str, value: Any, positions: Mapping[Path_, Position]) -> None:
        self.file = file
        self.value = value
        self._positions = positions

    def position(self, *path: str | int) -> Position:
        """Return the position of `path`, or of its nearest known parent."""
        for length in range(len(path), -1, -1):
            found = self._positions.get(path[:length])
            if found is not None:
                return found
        return (1, 1)

    def require_plain(self, kind: type[E]) -> None:
        """Refuse texts with control characters: they are shown as they are, and may come from another person.

        Raises:
            InputError: Of `kind`, with the place of the first one.
        """
        found = next(_suspects(self.value, ()), None)
        if found is not None:
            raise self.error(kind, "a text holds a control character or an invisible one.", *found, hint="Remove it.")

    def error(self, kind: type[E], message: str, *path: str | int, hint: str = "") -> E:
        """An error of `kind` that points at `path`."""
        line, column = self.position(*path)
        return kind(_shortened(message), file=self.file, line=line, column=column, hint=hint)


def _shortened(message: str) -> str:
    """Shorten a message to both its ends: it quotes first, and explains last."""
    line = one_line(message, limit=len(message) + 1)
    half = _LONGEST_MESSAGE // 2
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[:half]}…{line[-half:]}"


def _suspects(value: Any, path: Path_) -> Iterator[Path_]:
    match value:
        case str():
            if not is_plain(value):
                yield path
        case dict():
            for key, item in value.items():
                yield from _suspects(item, (*path, key)) if is_plain(str(key)) else ((*path, key),)
        case list():
            for index, item in enumerate(value):
                yield from _suspects(item, (*path, index))


def load_documents(
    data: bytes, *, file: str, kind: type[InputError] = InputError, limit_bytes: int = MAX_BYTES
) -> list[Document]:
    """Read all documents of a stream. Empty documents are left out.

    Raises:
        InputError: Or its subclass `kind`, with file, line and column.
    """
    if len(data) > limit_bytes:
        raise kind(f"the file has more than {limit_bytes} bytes, which is the limit.", file=file)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise kind("the file is not UTF-8.", file=file, line=data[: error.start].count(b"\n") + 1) from error
    try:
        return _documents_in(text, file, kind)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        is_tab = mark is not None and text[mark.index : mark.index + 1] == "\t"
        hint = "Indent with blanks: a tab stands there." if is_tab else ""
        message = f"not valid YAML: {error.problem or error.context}."
        raise kind(message, file=file, line=line, column=column, hint=hint) from error
    except yaml.YAMLError as error:
        raise kind(f"not valid YAML: {error}.", file=file) from error


def _documents_in(text: str, file: str, kind: type[InputError]) -> list[Document]:
    documents = []
    reader = _YamlReader(text, file, kind)
    try:
        while reader.has_document():
            value, positions = reader.document()
            if value is not None:
                documents.append(Document(file, value, positions))
    finally:
        reader.close()
    return documents


def load_document(data: bytes, *, file: str, kind: type[InputError] = InputError) -> Document:
    """Read a stream that holds exactly one document."""
    documents = load_documents(data, file=file, kind=kind)
    if len(documents) != 1:
        raise kind(f"one YAML document expected, {len(documents)} found.", file=file, line=1)
    return documents[0]


def read_input(
    path: Path, *, kind: type[InputError] = InputError, limit_bytes: int = MAX_BYTES, may_be_pipe: bool = False
) -> bytes:
    """Read a file that a person wrote; a pipe only where it was named on the command line.

    Raises:
        InputError: Or its subclass `kind`: missing, a folder or a device, unreadable, too long.
    """
    try:
        return read_file(path, limit_bytes, may_be_pipe=may_be_pipe)
    except OSError as error:
        raise kind(f"cannot be read: {error.strerror}.", file=str(path)) from error


_BRACKET = re.compile(r"[\[{\]}]")


def load_foreign(text: str) -> list[Any]:
    """Return the documents of YAML as other programs take it: with aliases, whose depth and numbers have bounds.

    Raises:
        yaml.YAMLError: It is not YAML, or nested too deeply; with its place, if it is a `yaml.MarkedYAMLError`.
    """
    depth = 0
    for bracket in _BRACKET.finditer(text):
        depth = max(0, depth + (1 if bracket[0] in "[{" else -1))
        if depth > MAX_DEPTH:  # the parser takes seconds, and libyaml's overflows the stack
            raise yaml.YAMLError("it is nested too deeply")
    try:
        return list(yaml.safe_load_all(text))
    except RecursionError:
        raise yaml.YAMLError("it is nested too deeply") from None
    except (ValueError, OverflowError) as error:
        raise yaml.YAMLError(f"a value cannot be read: {str(error)[:100]}") from None


_Events = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
"""The parser of characters into events; libyaml's is several times as fast."""

_RESOLVERS = (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^(?:[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+|0o[0-7]+)$", "-+0123456789"),
    (
        "float",
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        "-+.0123456789",
    ),
    ("null", r"^(?:~|null|Null|NULL)$", "~nN"),
)
"""The kinds of plain texts that are not texts, each with its form and the characters that it begins with."""
_RESOLVERS_BY_FIRST: dict[str, list[tuple[str, re.Pattern[str]]]] = {
    first: [(kind, re.compile(form)) for kind, form, begins in _RESOLVERS if first in begins]
    for first in {first for _, _, begins in _RESOLVERS for first in begins}
}


class _YamlReader:
    """Makes values of a stream's events, and keeps where each stands.

    Nodes are not made in between: they take more time than all of the rest.
    """

    def __init__(self, text: str, file: str, kind: type[InputError]) -> None:
        events = _Events(text)
        self._next = events.get_event
        self._peek = events.peek_event
        self.close = events.dispose
        self._positions: dict[Path_, Position] = {}
        self._anchors: dict[str, Any] = {}
        self._repeated_size = 0
        self._file = file
        self._kind = kind
        self._is_too_deep = False

    def has_document(self) -> bool:
        """Return whether there is another document; to be asked between documents."""
        if isinstance(self._peek(), yaml.StreamStartEvent):
            self._next()
        return not isinstance(self._peek(), yaml.StreamEndEvent)

    def document(self) -> tuple[Any, Mapping[Path_, Position]]:
        """Read the next document: its value, and the positions of its parts.

        What is not YAML is reported first, also where it comes after something else that is wrong.
        """
        self._positions, self._anchors = {}, {}
        self._next()
        root = self._next()
        self._positions[()] = _position_of(root)
        try:
            value = self._value(root, ())
        except self._kind:
            self._pass_the_rest()
            raise
        self._next()
        return value, self._positions

    def _pass_the_rest(self) -> None:
        """Parse up to the end of the document, or of what may be nested: 100,000 brackets take libyaml a minute."""
        depth = MAX_DEPTH if self._is_too_deep else 0
        while depth < MAX_DEPTH:
            event = self._next()
            if isinstance(event, yaml.DocumentEndEvent):
                return
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)

    def _value(self, event: Any, path: Path_) -> Any:
        if len(path) > MAX_DEPTH:
            self._is_too_deep = True
            raise self._error(f"nested more than {MAX_DEPTH} deep.", event)
        value: Any
        if type(event) is yaml.ScalarEvent:
            value = self._scalar(event)
        elif type(event) is yaml.AliasEvent:
            if event.anchor not in self._anchors:
                raise self._error(f"the alias {str(event.anchor)[:60]!r} has no anchor before it.", event)
            value = self._repeated(self._anchors[event.anchor], len(path), event)
        else:
            value = self._mapping(path) if type(event) is yaml.MappingStartEvent else self._sequence(path)
        if event.anchor:
            self._anchors[event.anchor] = value
        return value

    def _repeated(self, value: Any, depth: int, event: Any) -> Any:
        """Return a copy of what an alias stands for."""
        self._repeated_size += 1 + (len(value) if isinstance(value, str) else 0)
        if self._repeated_size > MAX_BYTES or depth > MAX_DEPTH:
            raise self._error(f"aliases repeat more than {MAX_BYTES} bytes, or deeper than {MAX_DEPTH}.", event)
        if isinstance(value, dict):
            return {key: self._repeated(item, depth + 1, event) for key, item in value.items()}
        return [self._repeated(item, depth + 1, event) for item in value] if isinstance(value, list) else value

    def _mapping(self, path: Path_) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while type(event := self._next()) is not yaml.MappingEndEvent:
            if type(event) is not yaml.ScalarEvent:
                raise self._error("a key must be a text.", event)
            key = str(event.value)
            if key == "<<":
                raise self._error("merge keys are not allowed.", event)
            if key in found:
                raise self._error(f"the key {key[:60]!r} is repeated.", event)
            below = (*path, key)
            self._positions[below] = _position_of(event)
            found[key] = self._value(self._next(), below)
        return found

    def _sequence(self, path: Path_) -> list[Any]:
        found: list[Any] = []
        while type(event := self._next()) is not yaml.SequenceEndEvent:
            below = (*path, len(found))
            self._positions[below] = _position_of(event)
            found.append(self._value(event, below))
        return found

    def _scalar(self, event: Any) -> Any:
        text = str(event.value)
        match _kind_of(event):
            case "str":
                return text
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int" | "float" as kind:
                return self._number(text, kind, event)
        raise self._error(f"the tag {event.tag[:60]!r} is not allowed.", event)

    def _number(self, text: str, kind: str, event: Any) -> int | float:
        if len(text) > MAX_DIGITS:
            raise self._error(f"the number has more than {MAX_DIGITS} digits.", event)
        try:
            if kind == "int":
                return int(text, 0) if text[:2] in {"0x", "0o"} else int(text)
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError as error:  # a tag that does not fit: !!int x
            raise self._error(f"{text!r} is not a number.", event) from error

    def _error(self, message: str, event: Any) -> InputError:
        line, column = _position_of(event)
        return self._kind(message, file=self._file, line=line, column=column)


def _position_of(event: Any) -> Position:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1)


def _kind_of(event: Any) -> str:
    """Return the last part of a scalar's tag, or what its text is without one."""
    if event.tag is not None and event.tag != "!":
        return str(event.tag).rpartition(":")[2]
    text = event.value
    if not event.implicit[0]:
        return "str"
    if not text:
        return "null"
    for kind, form in _RESOLVERS_BY_FIRST.get(text[0], ()):
        if form.match(text):
            return kind
    return "str"
