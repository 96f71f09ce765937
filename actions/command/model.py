"""What a command is: a verb with typed arguments, the same for keys, palette, `:` line, script and command line."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

A = TypeVar("A", bound="Arguments")


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of every command's arguments. An empty text means *what is selected*."""


class Danger(StrEnum):
    """How sure somebody has to be."""

    NONE = "none"
    CONFIRM = "confirm"
    """Yes or no."""
    TYPE_NAME = "type-name"
    """The cluster's name, typed."""


class Command(msgspec.Struct, frozen=True):
    """One verb.

    `id` is what people type and scripts say; `title` is what lists show; `help` is one sentence.
    `arguments` is the Struct that every way of calling decodes into; its first field is the positional one.
    `is_mutation` commands are refused in a read-only session.
    """

    id: str
    title: str
    help: str
    arguments: type[Arguments]
    danger: Danger = Danger.NONE
    is_mutation: bool = False

    def fields(self) -> tuple[msgspec.structs.FieldInfo, ...]:
        """The arguments' fields, the positional one first."""
        return msgspec.structs.fields(self.arguments)

    def usage(self) -> str:
        """How to type it on the `:` line, e.g. `launch BLUEPRINT [preset=…] [name=value …]`."""
        words = [self.id]
        for position, item in enumerate(self.fields()):
            if item.name == "set":
                words.append("[name=value …]")
            elif position == 0:
                words.append(item.name.upper() if item.required else f"[{item.name.upper()}]")
            else:
                words.append(f"{item.name}=…" if item.required else f"[{item.name}=…]")
        return " ".join(words)


class Call(msgspec.Struct, frozen=True):
    """A command with its arguments, ready to be carried out."""

    command: Command
    arguments: Arguments

    def values(self) -> Mapping[str, Any]:
        """The arguments as plain values, defaults left out: what a recorded script shows."""
        given: dict[str, Any] = {}
        for item in self.command.fields():
            value = getattr(self.arguments, item.name)
            default = item.default if item.default is not msgspec.NODEFAULT else None
            if item.default_factory is not msgspec.NODEFAULT:
                default = item.default_factory()
            if value != default:
                given[item.name] = value
        return given
