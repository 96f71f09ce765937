"""`head` and `tail`: the first or last lines or bytes of files, and what is appended to one.

Source: GNU coreutils 8.32, `head --help` and `tail --help`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from actions.sandbox.workloads.program import Program, Step
from actions.sandbox.workloads.terminal import Inside

_POLL_SECONDS = 0.25
_Units = TypeVar("_Units", bytes, list[bytes])


class _CutOptions(msgspec.Struct):
    """What the arguments ask for."""

    paths: list[str]
    count: int = 10
    in_bytes: bool = False
    from_start: bool = False
    """`+N`: from the N-th line or byte on."""
    follow: bool = False
    retry: bool = False
    problem: str = ""


def head(inside: Inside, arguments: Sequence[str], given: str) -> Program:
    """`head`."""
    return (yield from _cut(inside, _cut_options(arguments), given, "head"))


def tail(inside: Inside, arguments: Sequence[str], given: str) -> Program:
    """`tail`; with `-f` or `-F` it goes on until somebody ends it."""
    wish = _cut_options(arguments)
    if not (wish.follow and wish.paths and not wish.problem):
        return (yield from _cut(inside, wish, given, "tail"))
    return (yield from _follow(inside, wish))


def _follow(inside: Inside, wish: _CutOptions) -> Program:
    """The end of one file, then whatever is appended to it; with `-F` also of a file that is yet to come."""
    name = wish.paths[0]
    path, seen, is_told = posixpath.normpath(posixpath.join(inside.folder, name)), -1, False
    while True:
        found = inside.container.files.file(path)
        if found is None and not is_told:
            yield Step(text=f"tail: cannot open '{name}' for reading: No such file or directory\n", is_error=True)
            if not wish.retry:
                yield Step(text="tail: no files remaining\n", is_error=True)
                return 1
            is_told = True
        if found is not None and seen < 0:
            if is_told:
                yield Step(text=f"tail: '{name}' has appeared;  following new file\n", is_error=True)
                wish.count, wish.from_start = 1, True
            start = len(found.content) - len(_piece(wish, found.content, "tail"))
            seen = start
        if found is not None and len(found.content) < seen:
            yield Step(text=f"tail: {name}: file truncated\n", is_error=True)
            seen = 0
        if found is not None and len(found.content) > seen:
            yield Step(text=found.content[seen:].decode(errors="replace"))
            seen = len(found.content)
        yield Step(_POLL_SECONDS)


def _cut(inside: Inside, wish: _CutOptions, given: str, name: str) -> Program:
    if wish.problem:
        yield Step(text=f"{name}: {wish.problem}\n", is_error=True)
        return 1
    code = 0
    for path in wish.paths:
        found = inside.container.files.file(posixpath.normpath(posixpath.join(inside.folder, path)))
        if found is None:
            yield Step(text=f"{name}: cannot open '{path}' for reading: No such file or directory\n", is_error=True)
            code = 1
            continue
        if len(wish.paths) > 1:
            yield Step(text=f"==> {path} <==\n")
        yield Step(text=_piece(wish, found.content, name).decode(errors="replace"))
    if not wish.paths:
        yield Step(text=_piece(wish, given.encode(), name).decode(errors="replace"))
    return code


def _piece(wish: _CutOptions, content: bytes, name: str) -> bytes:
    """The part of a content that is wanted. Lines end at newlines only: a bar's carriage returns are within one."""
    if wish.in_bytes:
        return _part(wish, content, len(content), name)
    lines = content.split(b"\n")
    last = lines.pop()
    whole = [line + b"\n" for line in lines] + ([last] if last else [])
    return b"".join(_part(wish, whole, len(whole), name))


def _part(wish: _CutOptions, units: _Units, count: int, name: str) -> _Units:
    if name == "head":
        return units[: wish.count]
    return units[max(0, wish.count - 1) if wish.from_start else max(0, count - wish.count) :]


def _cut_options(arguments: Sequence[str]) -> _CutOptions:
    """Read `-n 5`, `-n5`, `-5`, `-n +3`, `-c +100`, `--lines=5`, `-f`, `-F`, `-nf 5` and file names."""
    wish, rest = _CutOptions([]), list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            wish.paths.append(word)
            continue
        name, _, value = word[1:].partition("=")
        if name in ("-lines", "-bytes") or name[:1] in ("n", "c"):
            value = value or (name[1:] if not name.startswith("-") else "") or (rest.pop(0) if rest else "")
            _count(wish, value, in_bytes=name.lstrip("-").startswith(("c", "bytes")))
        elif name.isdigit():
            wish.count = int(name)
        else:
            wish.follow = wish.follow or "f" in name.lower()
            wish.retry = wish.retry or "F" in name or name == "-retry"
    return wish


def _count(wish: _CutOptions, value: str, *, in_bytes: bool) -> None:
    digits = value.removeprefix("+")
    if not digits.isdigit():
        wish.problem = f"invalid number of {'bytes' if in_bytes else 'lines'}: '{value}'"
        return
    wish.count, wish.in_bytes, wish.from_start = int(digits), in_bytes, value.startswith("+")
