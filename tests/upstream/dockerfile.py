"""A Dockerfile as its instructions and the commands that they run: what is installed, removed and imported."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path

from actions.base.files import shipped_blueprints

_SEPARATORS = frozenset({"&&", "||", ";", "|"})
Command = tuple[str, ...]


@dataclass(frozen=True)
class Instruction:
    """One instruction with its continued lines joined: `RUN`, and what stands behind it."""

    name: str
    text: str

    def commands(self) -> list[Command]:
        """The commands of a RUN, each as words; variables are left as they stand."""
        lexer = shlex.shlex(self.text, posix=True, punctuation_chars="&|;")
        lexer.whitespace_split = True
        lexer.commenters = ""
        found: list[list[str]] = [[]]
        for word in lexer:
            if word in _SEPARATORS:
                found.append([])
            else:
                found[-1].append(word)
        return [tuple(words) for words in found if words]


@dataclass(frozen=True)
class Dockerfile:
    """The instructions of one Dockerfile, in order."""

    instructions: tuple[Instruction, ...]

    def named(self, name: str) -> list[Instruction]:
        return [one for one in self.instructions if one.name == name]

    def values(self, name: str) -> dict[str, str]:
        """The variables that ENV or ARG sets; of several settings the last."""
        pairs = (word.partition("=") for one in self.named(name) for word in shlex.split(one.text) if "=" in word)
        return {key: value for key, _, value in pairs}

    def commands(self) -> list[Command]:
        return [command for one in self.named("RUN") for command in one.commands()]

    def operands(self, *beginning: str) -> set[str]:
        """The words behind all commands that begin so, without options."""
        return {
            word
            for command in self.commands()
            if command[: len(beginning)] == beginning
            for word in command[len(beginning) :]
            if not word.startswith("-")
        }


def dockerfile_of(blueprint: str) -> Dockerfile:
    """The Dockerfile of a shipped blueprint's image."""
    return parse_dockerfile(shipped_blueprints() / blueprint / "image" / "Dockerfile")


def parse_dockerfile(path: Path) -> Dockerfile:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", "", "\n".join(lines))
    pairs = (line.partition(" ") for line in joined.splitlines() if line.strip())
    return Dockerfile(tuple(Instruction(name.upper(), text.strip()) for name, _, text in pairs))


def python_of(instruction: Instruction) -> str:
    """The program that a RUN gives to `python -c`; empty if it gives none."""
    for command in instruction.commands():
        words = list(dropwhile(lambda word: re.match(r"\w+=", word), command))
        if len(words) >= 3 and re.fullmatch(r"python[0-9.]*", words[0]) and words[1] == "-c":
            return words[2]
    return ""


def imports_of(program: str) -> set[str]:
    """Every module that a program imports."""
    return set(_imported(ast.parse(program)))


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield node.module
