"""The parser of calls, from the `:` line or from a YAML value, and its completions."""

from __future__ import annotations

import re
import shlex
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from actions.base.decoding import convert
from actions.base.errors import ParameterError, nearest_hint
from actions.command.arguments import Arguments
from actions.command.verbs import (
    COMMANDS,
    Call,
    Command,
    command_of,
)

ALIASES: Mapping[str, str] = {
    "q": "quit",
    "q!": "quit",
    "h": "help",
    "ctx": "context",
    "bp": "open blueprints",
    "no": "open nodes",
    "po": "open pods",
    "ev": "open events",
    "home": "open home",
    "nodes": "open nodes",
    "pods": "open pods",
    "blueprints": "open blueprints",
    "runs": "open runs",
    "run": "open run",
    "events": "open events",
    "charts": "open charts",
    "curves": "open charts",
    "accelerators": "open accelerators",
    "cost": "open cost",
    "queues": "open queues",
    "obj": "open objects",
    "ns": "namespace",
}
"""Short words of the `:` line, and the commands they stand for. `logs` is a command of its own."""

_FLAGS = {"-l": "labels", "-F": "fields", "-n": "namespace", "-c": "container", "-p": "previous"}
"""Short flags of kubectl, and the arguments that they stand for. Other flags are the arguments' own names."""
_FLAG = re.compile(r"-[A-Za-z](=|\Z)|--[A-Za-z]")
_OF_TEXT = ("filter", "search")
"""Commands on a text, which may begin with a hyphen."""

_FEW = 8
"""Values that are named in a sentence."""
_MISSPELT = 0.8
"""Likeness, from 0 to 1, from which an unknown word is taken for a misspelt command."""


def parse_line(text: str) -> Call:
    """Read a `:` line such as `launch bionemo-esm1nv workers=2`.

    The first word without `=` is the command's positional argument; `name=value` sets an argument of that name, or a
    parameter where the command takes parameters (`set`). `--name value`, `--name=value` and kubectl's short flags do
    so, too; a switch needs no value: `logs --previous`. All that stands behind `filter` is its text.

    Raises:
        MissingError: Unknown command.
        ParameterError: An argument is unknown, missing or has the wrong type.
    """
    if text.split(None, 1)[:1] == ["filter"] and "text=" not in text:
        text = f"filter {_as_one_word(text)}"
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ParameterError(f"The line cannot be read: {error}.", hint="Close the quotes.") from error
    if not words:
        raise ParameterError("Nothing to do.", hint="Type a command, or ? for help.")
    words = ALIASES.get(words[0], words[0]).split() + words[1:]
    command = command_of(words[0])
    return Call(command, decode(command, _arguments_of(command, words[1:]), strict=False))


def decode(command: Command, value: Any, *, strict: bool = True) -> Arguments:
    """Decode plain values into the command's arguments.

    Args:
        command: The command.
        value: A mapping by name; a single scalar stands for the positional argument; `None` for no arguments.
        strict: Refuse texts in the place of numbers and booleans.

    Raises:
        ParameterError: The value does not fit; the message names the command and the argument.
    """
    fields = command.fields()
    if value is None:
        value = {}
    elif not isinstance(value, Mapping):
        if not fields:
            raise ParameterError(f"{command.id} takes no arguments.")
        value = {fields[0].encode_name: value}
    known = {field.encode_name for field in fields}
    for name in value:
        if name not in known:
            raise ParameterError(f"{command.id} has no argument {name!r}.", hint=nearest_hint(str(name), known))
    for field in fields:
        if field.required and field.encode_name not in value:
            values = _choices_of(field.type)
            wanted = f"one of {', '.join(values)}" if 0 < len(values) <= _FEW else field.encode_name
            raise ParameterError(f"{command.id} needs {wanted}.", hint=_usage(command))
    try:
        return convert(dict(value), command.arguments, strict=strict)
    except msgspec.ValidationError as error:
        said = plain(error, command.arguments).removeprefix(f"{command.id}: ")
        raise ParameterError(f"{command.id}: {said}.", hint=_usage(command)) from error


def parse_typed(text: str, is_kind: Callable[[str], bool]) -> Call:
    """Read a `:` line as `parse_line` does; a first word that is not a command may be a kind: `pvc`, `jobs training`.

    Args:
        text: The line.
        is_kind: Returns whether the cluster is known to serve a kind of that name.

    Raises:
        MissingError: It is neither, and looks like a command that is spelt otherwise.
        ParameterError: An argument is unknown, missing or has the wrong type.
    """
    import difflib  # not at the start

    word, _, rest = text.strip().partition(" ")
    if not word or word in ALIASES or any(command.id == word for command in COMMANDS):
        return parse_line(text)
    if is_kind(word) or not difflib.get_close_matches(word, _words(), n=1, cutoff=_MISSPELT):
        return parse_line(f"objects kind={word} {rest}")
    return parse_line(text)  # it is unknown: the error names what is near


def complete(text: str, choices: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the lines that complete `text`.

    Args:
        text: The line so far.
        choices: Known values by what an argument names, e.g. `{"blueprint": ["bionemo-esm1nv"]}`, or of one command
            by its argument: `{"drain object": ["node-1"]}`, also behind a first value: `{"open run of": ["train"]}`.
    """
    head, separator, last = text.rpartition(" ")
    if not separator:
        names = _words()
        kinds = [kind for kind in choices.get("kind", ()) if kind not in names]
        return tuple(name for name in (*names, *kinds) if name.startswith(last))
    first, *others = head.split() or [""]
    words = [*ALIASES.get(first, first).split(), *others]
    command = next((c for c in COMMANDS if words and c.id == words[0]), None)
    if command is None:
        spaces = choices.get("namespace", ()) if len(words) == 1 else ()  # behind a kind
        return tuple(f"{head} {space}" for space in spaces if space.startswith(last))
    name, equals, prefix = last.partition("=")
    fields = command.fields()
    if equals:
        field = next((field for field in fields if field.encode_name == name), None)
        known = _known_values(words, field, choices) if field is not None else ()
        return tuple(f"{head} {name}={value}" for value in known if value.startswith(prefix))
    place = sum("=" not in word for word in words[1:])
    candidates = [*_known_values(words, fields[place], choices)] if place < len(fields) else []
    candidates += [f"{field.encode_name}=" for field in fields[1:] if field.encode_name != "set"]
    candidates += [f"{name}=" for name in choices.get(" ".join([*words[:2], "set"]), ())]
    return tuple(f"{head} {candidate}" for candidate in candidates if candidate.startswith(last))


def _known_values(
    words: Sequence[str], field: msgspec.structs.FieldInfo, choices: Mapping[str, Sequence[str]]
) -> Sequence[str]:
    """Return what an argument may be behind the words of a line: what is known most closely, else by its type."""
    names = (" ".join([*words[:2], field.encode_name]), f"{words[0]} {field.encode_name}", _what_is_named(field.type))
    known = next((values for name in names if (values := choices.get(name))), None)
    return known or (("true",) if _is_switch(field.type) else _choices_of(field.type))


def _what_is_named(annotation: object) -> str:
    """Return what a text names, such as a context; empty for a text of another use."""
    inner = msgspec.inspect.type_info(annotation)
    while isinstance(inner, msgspec.inspect.Metadata):
        if inner.extra and "names" in inner.extra:
            return str(inner.extra["names"])
        inner = inner.type
    return ""


def _words() -> list[str]:
    """Return the first words of `:` lines, without the shortest aliases."""
    return sorted({command.id for command in COMMANDS} | {alias for alias in ALIASES if len(alias) > 2})


def _as_one_word(text: str) -> str:
    """Return what stands behind the first word as one word for `shlex`: a filter has quotes and blanks of its own."""
    rest = text.strip().partition(" ")[2].strip()
    is_quoted = len(rest) > 1 and rest[0] == rest[-1] and rest[0] in "\"'" and rest.count(rest[0]) == 2
    return rest if is_quoted or not rest else shlex.quote(rest)


def _arguments_of(command: Command, words: Sequence[str]) -> dict[str, Any]:
    fields = [field.encode_name for field in command.fields()]
    given: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    positional = iter(name for name in fields if name != "set")
    for word in _without_flags(command, words):
        name, equals, value = word.partition("=")
        if equals and name in fields:
            given[name] = value
        elif equals and "set" in fields:
            parameters[name] = value
        elif not equals and (target := next((n for n in positional if n not in given), None)):
            given[target] = word
        else:
            raise ParameterError(f"{command.id} cannot use {word!r}.", hint=_usage(command))
    if parameters:
        given["set"] = parameters
    return given


def _without_flags(command: Command, words: Sequence[str]) -> list[str]:
    """Return the words, with flags and their values as `name=value`; those behind `--` as they are.

    Raises:
        ParameterError: The command has no such flag, or nothing stands after it.
    """
    if command.id in _OF_TEXT:
        return list(words)
    types = {field.encode_name: field.type for field in command.fields()}
    found, rest = list[str](), deque(words)
    while rest:
        word = rest.popleft()
        if word == "--":
            return [*found, *rest]
        if not _FLAG.match(word):
            found.append(word)
            continue
        flag, equals, value = word.partition("=")
        name = _FLAGS.get(flag) or flag.lstrip("-").replace("-", "_")
        if name not in types and "set" not in types:
            raise ParameterError(f"{command.id} has no {flag}.", hint=_usage(command))
        if not equals:
            value = _value_behind(rest, types.get(name))
        if not value:
            raise ParameterError(f"{command.id} has nothing after {flag}.", hint=_usage(command))
        found.append(value if name == "set" else f"{name}={value}")
    return found


def _value_behind(rest: deque[str], kind: object | None) -> str:
    """Take the value of a flag from the words behind it; empty if there is none.

    Args:
        rest: Those words.
        kind: The type of the flag's argument; `None` for a parameter.
    """
    following = rest[0] if rest else ""
    if kind is not None and _is_switch(kind):
        return rest.popleft() if following in ("true", "false") else "true"
    if not following or (kind is None and "=" in following):
        return ""
    return rest.popleft()


_WANTED = {
    "Expected `int` >= ": "not a whole number, or too small",
    "Expected `int` <= ": "not a whole number, or too large",
    "Expected `int`": "not a whole number",
    "Expected `float`": "not a number",
    "Expected `bool`": "neither true nor false",
}
"""The mistakes that msgspec finds, in plain words, by the beginning of its message."""


def plain(error: msgspec.ValidationError, struct: type[msgspec.Struct]) -> str:
    """Return msgspec's message in plain words: the field, the mistake, the values that are allowed."""
    text, _, path = str(error).partition(" - at `$")
    name = path.strip("`").lstrip(".")
    text = next((word for prefix, word in _WANTED.items() if text.startswith(prefix)), f"{text[:1].lower()}{text[1:]}")
    field = next((f for f in msgspec.structs.fields(struct) if f.encode_name == name), None)
    choices = _choices_of(field.type) if field is not None else ()
    if choices:
        named = [choice for choice in choices if choice]
        allowed = f"one of {', '.join(named)}" if len(named) > 1 else named[0] if named else "a value of it"
        text = f"{text.removeprefix('invalid enum value ')} is not {allowed}"
    return f"{name}: {text}" if name else text


def _choices_of(annotation: object) -> tuple[str, ...]:
    inner = _inner(annotation)
    return tuple(str(value) for value in inner.values) if isinstance(inner, msgspec.inspect.LiteralType) else ()


def _is_switch(annotation: object) -> bool:
    return isinstance(_inner(annotation), msgspec.inspect.BoolType)


def _inner(annotation: object) -> msgspec.inspect.Type:
    """Return the type of a field without its description."""
    inner = msgspec.inspect.type_info(annotation)
    while isinstance(inner, msgspec.inspect.Metadata):
        inner = inner.type
    return inner


def _usage(command: Command) -> str:
    return f"Usage: {command.usage()}"
