"""The parser of calls, from the `:` line or from a YAML value, and its completions."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from actions.base.errors import ParameterError
from actions.command.verbs import COMMANDS, Arguments, Call, Command, command_of, nearest_hint

ALIASES: Mapping[str, str] = {
    "q": "quit",
    "q!": "quit",
    "h": "help",
    "ctx": "context",
    "bp": "open blueprints",
    "no": "open nodes",
    "po": "open pods",
    "ev": "open events",
    "nodes": "open nodes",
    "pods": "open pods",
    "blueprints": "open blueprints",
    "runs": "open runs",
    "run": "open run",
    "events": "open events",
    "charts": "open charts",
    "accelerators": "open accelerators",
    "cost": "open cost",
}
"""Short words of the `:` line, and the commands they stand for. `logs` is a command of its own."""


def parse_line(text: str) -> Call:
    """Read a `:` line such as `launch bionemo-esm1nv workers=2`.

    The first word without `=` is the command's positional argument; `name=value` sets an argument of that name, or a
    parameter where the command takes parameters (`set`).

    Raises:
        MissingError: Unknown command.
        ParameterError: An argument is unknown, missing or has the wrong type.
    """
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
        value = {fields[0].name: value}
    known = {field.name for field in fields}
    for name in value:
        if name not in known:
            raise ParameterError(f"{command.id} has no argument {name!r}.", hint=nearest_hint(str(name), known))
    for field in fields:
        if field.required and field.name not in value:
            raise ParameterError(f"{command.id} needs {field.name}.", hint=_usage(command))
    try:
        return msgspec.convert(dict(value), command.arguments, strict=strict)
    except msgspec.ValidationError as error:
        raise ParameterError(f"{command.id}: {plain(error, command.arguments)}.", hint=_usage(command)) from error


def complete(text: str, choices: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the lines that complete `text`.

    Args:
        text: The line so far.
        choices: Known values by argument name, e.g. `{"blueprint": ["bionemo-esm1nv"]}`.
    """
    head, separator, last = text.rpartition(" ")
    if not separator:
        names = sorted({command.id for command in COMMANDS} | {a for a in ALIASES if len(a) > 2})
        return tuple(name for name in names if name.startswith(last))
    words = ALIASES.get(head.split()[0], head.split()[0]).split() if head.split() else []
    command = next((c for c in COMMANDS if words and c.id == words[0]), None)
    if command is None:
        return ()
    name, equals, prefix = last.partition("=")
    if equals:
        return tuple(f"{head} {name}={v}" for v in choices.get(name, ()) if v.startswith(prefix))
    fields = command.fields()
    candidates = [*choices.get(fields[0].name, ())] if fields and len(head.split()) == 1 else []
    candidates += [f"{field.name}=" for field in fields[1:] if field.name != "set"]
    return tuple(f"{head} {candidate}" for candidate in candidates if candidate.startswith(last))


def _arguments_of(command: Command, words: Sequence[str]) -> dict[str, Any]:
    fields = [field.name for field in command.fields()]
    given: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    positional = iter(name for name in fields if name != "set")
    for word in words:
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


def plain(error: msgspec.ValidationError, struct: type[msgspec.Struct]) -> str:
    """Return msgspec's message in plain words: the field, the mistake, the values that are allowed."""
    text, _, path = str(error).partition(" - at `$")
    name = path.strip("`").lstrip(".")
    text = f"{text[:1].lower()}{text[1:]}"
    field = next((f for f in msgspec.structs.fields(struct) if f.name == name), None)
    choices = _choices_of(field.type) if field is not None else ()
    if choices:
        text = f"{text.removeprefix('invalid enum value ')} is not one of {', '.join(choices)}"
    return f"{name}: {text}" if name else text


def _choices_of(annotation: object) -> tuple[str, ...]:
    inner = msgspec.inspect.type_info(annotation)
    while isinstance(inner, msgspec.inspect.Metadata):
        inner = inner.type
    return tuple(str(value) for value in inner.values) if isinstance(inner, msgspec.inspect.LiteralType) else ()


def _usage(command: Command) -> str:
    return f"Usage: {command.usage()}"
