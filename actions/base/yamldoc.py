"""YAML that people write: read strictly, with the line of every node kept for error messages.

Refused: aliases and anchors (a 400-byte file can expand without end), duplicate keys, more than `MAX_BYTES`,
`MAX_DEPTH` or `MAX_DIGITS`. Numbers and booleans follow YAML 1.2's core schema, so that `no`, `on`, `0755` and `12:30`
stay texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

from actions.base.errors import InputError
from actions.base.files import read_bounded
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
    documents = []
    try:
        for node in _nodes_of(text):
            reader = _YamlReader(file, kind)
            value = reader.read(node, ())
            if value is not None:
                documents.append(Document(file, value, reader.positions))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise kind(f"not valid YAML: {error.problem or error.context}.", file=file, line=line, column=column) from error
    except yaml.YAMLError as error:
        raise kind(f"not valid YAML: {error}.", file=file) from error
    except RecursionError as error:
        raise kind(f"nested more than {MAX_DEPTH} deep.", file=file) from error
    return documents


def _nodes_of(text: str) -> Iterator[yaml.Node]:
    loader = _StrictLoader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                yield node
    finally:
        loader.dispose()


def load_document(data: bytes, *, file: str, kind: type[InputError] = InputError) -> Document:
    """Read a stream that holds exactly one document."""
    documents = load_documents(data, file=file, kind=kind)
    if len(documents) != 1:
        raise kind(f"one YAML document expected, {len(documents)} found.", file=file, line=1)
    return documents[0]


def read_input(path: Path, *, kind: type[InputError] = InputError, limit_bytes: int = MAX_BYTES) -> bytes:
    """Read a file that a person named, up to one byte more than the limit.

    Raises:
        InputError: Or its subclass `kind`: missing, a folder or a device, unreadable.
    """
    try:
        return read_bounded(path, limit_bytes + 1)
    except OSError as error:
        raise kind(f"cannot be read: {error.strerror}.", file=str(path)) from error


_Events = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
"""The parser of characters into events; libyaml's is several times as fast."""


class _StrictLoader(yaml.composer.Composer, yaml.resolver.Resolver):
    """Composes nodes without aliases, with YAML 1.2's idea of what is a number."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own shape

    def __init__(self, stream: str) -> None:
        yaml.composer.Composer.__init__(self)
        yaml.resolver.Resolver.__init__(self)
        events = _Events(stream)
        self.check_event = events.check_event
        self.peek_event = events.peek_event
        self.get_event = events.get_event
        self.dispose = events.dispose

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise yaml.constructor.ConstructorError(None, None, "anchors and aliases are not allowed", event.start_mark)
        return super().compose_node(parent, index)


for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("tag:yaml.org,2002:int", r"^(?:[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+|0o[0-7]+)$", "-+0123456789"),
    (
        "tag:yaml.org,2002:float",
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        "-+.0123456789",
    ),
    ("tag:yaml.org,2002:null", r"^(?:~|null|Null|NULL|)$", "~nN\0"),
):
    _StrictLoader.add_implicit_resolver(
        _tag, re.compile(_pattern), list(_first.replace("\0", "")) + ([""] if "\0" in _first else [])
    )


class _YamlReader:
    def __init__(self, file: str, kind: type[InputError]) -> None:
        self.positions: dict[Path_, Position] = {}
        self._file = file
        self._kind = kind

    def read(self, node: yaml.Node, path: Path_) -> Any:
        position = (node.start_mark.line + 1, node.start_mark.column + 1)
        self.positions.setdefault(path, position)
        if len(path) > MAX_DEPTH:
            raise self._error(f"nested more than {MAX_DEPTH} deep.", position)
        match node:
            case yaml.MappingNode():
                return dict(self._pairs(node, path))
            case yaml.SequenceNode():
                return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]
            case yaml.ScalarNode():
                return self._scalar(node, position)
        raise self._error(f"{node.tag} is not allowed here.", position)

    def _pairs(self, node: yaml.MappingNode, path: Path_) -> Iterator[tuple[str, Any]]:
        seen: set[str] = set()
        for key_node, value_node in node.value:
            position = (key_node.start_mark.line + 1, key_node.start_mark.column + 1)
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._error("a key must be a text.", position)
            key = str(key_node.value)
            if key == "<<":
                raise self._error("merge keys are not allowed.", position)
            if key in seen:
                raise self._error(f"the key {key[:60]!r} is repeated.", position)
            seen.add(key)
            self.positions[(*path, key)] = position
            yield key, self.read(value_node, (*path, key))

    def _scalar(self, node: yaml.ScalarNode, position: Position) -> Any:
        text = str(node.value)
        match node.tag.rpartition(":")[2]:
            case "str":
                return text
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int" | "float" as kind:
                return self._number(text, kind, position)
        raise self._error(f"the tag {node.tag[:60]!r} is not allowed.", position)

    def _number(self, text: str, kind: str, position: Position) -> int | float:
        if len(text) > MAX_DIGITS:
            raise self._error(f"the number has more than {MAX_DIGITS} digits.", position)
        try:
            if kind == "int":
                return int(text, 0) if text[:2] in {"0x", "0o"} else int(text)
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError as error:  # a tag that does not fit: !!int x
            raise self._error(f"{text!r} is not a number.", position) from error

    def _error(self, message: str, position: Position) -> InputError:
        return self._kind(message, file=self._file, line=position[0], column=position[1])
