"""`find`, `stat`, `df`, `grep`, `head` and `tail` over a container's files.

Source: findutils 4.8, coreutils 8.32, grep 3.7 and busybox 1.36, the options that they share.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Sequence
from typing import TypeVar
from zlib import crc32

import msgspec

from actions.base.patterns import PatternError, compile_pattern
from actions.sandbox.programs.files import FileView
from actions.sandbox.programs.program import ProcessContext, Program, ProgramStep

_BLOCKS = 2_516_582_400
"""Blocks of 1024 bytes: the size that a shared volume claims."""


class _FindOptions(msgspec.Struct):
    """The settings in the arguments of `find`."""

    roots: list[str] = msgspec.field(default_factory=list)
    pattern: str = "*"
    kind: str = ""
    command: list[str] = msgspec.field(default_factory=list)


def find(context: ProcessContext, arguments: Sequence[str], _given: str) -> Program:
    """`find ROOT… [-type f|d] [-name PATTERN] [-newer FILE] [-exec stat|ls … {} +]`.

    `-newer` is taken as true: volumes of the sandbox are younger than its containers.
    """
    options, code = _find_options(arguments), 0
    found: list[str] = []
    for root in options.roots or ["."]:
        path = _path(context, root)
        if not _is_there(context.container.files, path):
            yield ProgramStep(text=f"find: '{root}': No such file or directory\n", is_error=True)
            code = 1
            continue
        found += _below(context.container.files, path, options)
    if options.command[:1] == ["stat"] and found:
        yield from stat(context, [*(word for word in options.command[1:] if word not in ("{}", "+", ";")), *found], "")
    elif found:
        yield ProgramStep(text="".join(path + "\n" for path in found))
    else:
        yield ProgramStep()
    return code


def stat(context: ProcessContext, arguments: Sequence[str], _given: str) -> Program:
    """`stat -c FORMAT FILE…` with `%n`, `%s`, `%i` and `%Y`."""
    words = list(arguments)
    form = words[words.index("-c") + 1] if "-c" in words[:-1] else "%n %s"
    code = 0
    for name in (word for word in words if word not in ("-c", form)):
        path = _path(context, name)
        file = context.container.files.file(path)
        if file is None and not context.container.files.is_folder(path):
            yield ProgramStep(text=f"stat: cannot statx '{name}': No such file or directory\n", is_error=True)
            code = 1
            continue
        size, changed = (file.size_bytes, file.changed_at) if file else (4096, 0)
        values = {"%n": name, "%s": str(size), "%i": str(crc32(path.encode())), "%Y": str(int(changed))}
        text = form
        for sign, value in values.items():
            text = text.replace(sign, value)
        yield ProgramStep(text=text + "\n")
    return code


def df(context: ProcessContext, arguments: Sequence[str], _given: str) -> Program:
    """`df [-P] [-k] [PATH]`."""
    files = context.container.files
    asked = [_path(context, word) for word in arguments if not word.startswith("-")]
    points = [_mount_of(files, path) for path in asked] or files.mount_points()
    yield ProgramStep(text="Filesystem     1024-blocks        Used   Available Capacity Mounted on\n")
    for point in points:
        name, size = ("overlay", 104_857_600) if point == "/" else ("10.1.0.9@tcp:/eksml", _BLOCKS)
        used = sum(file.size_bytes for path in files.walk(point) if (file := files.file(path))) // 1024
        rest = max(size - used, 0)
        yield ProgramStep(text=f"{name:<14} {size:>11} {used:>11} {rest:>11} {used * 100 // size:>7}% {point}\n")
    return 0


def _find_options(arguments: Sequence[str]) -> _FindOptions:
    options, words = _FindOptions(), list(arguments)
    while words and not words[0].startswith("-"):
        options.roots.append(words.pop(0))
    while words:
        match words.pop(0):
            case "-name" if words:
                options.pattern = words.pop(0)
            case "-type" if words:
                options.kind = words.pop(0)
            case "-newer" if words:
                words.pop(0)
            case "-exec":
                options.command, words = words, []
    return options


def _below(files: FileView, path: str, options: _FindOptions) -> list[str]:
    if options.kind == "d":
        return [path] if files.is_folder(path) else []
    every = files.walk(path) if files.is_folder(path) else [path]
    return [name for name in every if fnmatch.fnmatch(posixpath.basename(name), options.pattern)]


def _is_there(files: FileView, path: str) -> bool:
    return files.is_folder(path) or files.file(path) is not None


def _mount_of(files: FileView, path: str) -> str:
    under = [point for point in files.mount_points() if point in ("/", path) or path.startswith(point + "/")]
    return max(under, key=len)


def _path(context: ProcessContext, path: str) -> str:
    return posixpath.normpath(posixpath.join(context.folder, path))


_GREP_LETTERS = "EHv"
_INPUT = "(standard input)"


def grep(context: ProcessContext, arguments: Sequence[str], given: str) -> Program:
    """`grep [-EHv] PATTERN [FILE]…`, with expressions of RE2's language; anything else is refused."""
    words = [word for word in arguments if not word.startswith("-")]
    letters = "".join(word[1:] for word in arguments if word.startswith("-"))
    unknown = next((letter for letter in letters if letter not in _GREP_LETTERS), "")
    if unknown or not words:
        problem = f"grep: -{unknown} is more than this shell can do" if unknown else "usage: grep PATTERN [FILE]..."
        yield ProgramStep(text=f"{problem}\n", is_error=True)
        return 2
    try:
        pattern = compile_pattern(words[0])
    except PatternError as error:
        yield ProgramStep(text=f"grep: {words[0]}: {error}\n", is_error=True)
        return 2
    code, is_named = 1, "H" in letters or len(words) > 2
    for name in words[1:] or [_INPUT]:
        found = context.container.files.file(_path(context, name)) if words[1:] else None
        if words[1:] and found is None:
            yield ProgramStep(text=f"grep: {name}: No such file or directory\n", is_error=True)
            code = 2
            continue
        text = found.content.decode(errors="replace") if found else given
        lines = [
            line
            for line in (text.removesuffix("\n").split("\n") if text else ())
            if pattern.search(line) != ("v" in letters)
        ]
        code = 0 if lines and code == 1 else code
        yield ProgramStep(text="".join(f"{f'{name}:' if is_named else ''}{line}\n" for line in lines))
    return code


_POLL_SECONDS = 0.25
_Units = TypeVar("_Units", bytes, list[bytes])


class _CutOptions(msgspec.Struct):
    """The settings in the arguments."""

    paths: list[str]
    count: int = 10
    in_bytes: bool = False
    from_start: bool = False
    """`+N`: from the N-th line or byte on."""
    follow: bool = False
    retry: bool = False
    problem: str = ""


def head(context: ProcessContext, arguments: Sequence[str], given: str) -> Program:
    """`head`."""
    return (yield from _cut(context, _cut_options(arguments), given, "head"))


def tail(context: ProcessContext, arguments: Sequence[str], given: str) -> Program:
    """Run `tail`; with `-f` or `-F` until the process is ended."""
    options = _cut_options(arguments)
    if not (options.follow and options.paths and not options.problem):
        return (yield from _cut(context, options, given, "tail"))
    return (yield from _follow(context, options))


def _follow(context: ProcessContext, options: _CutOptions) -> Program:
    """The end of one file, then whatever is appended to it; with `-F` also of a file that is yet to come."""
    name = options.paths[0]
    path, seen, is_told = posixpath.normpath(posixpath.join(context.folder, name)), -1, False
    while True:
        found = context.container.files.file(path)
        if found is None and not is_told:
            yield ProgramStep(
                text=f"tail: cannot open '{name}' for reading: No such file or directory\n", is_error=True
            )
            if not options.retry:
                yield ProgramStep(text="tail: no files remaining\n", is_error=True)
                return 1
            is_told = True
        if found is not None and seen < 0:
            if is_told:
                yield ProgramStep(text=f"tail: '{name}' has appeared;  following new file\n", is_error=True)
                options.count, options.from_start = 1, True
            start = len(found.content) - len(_piece(options, found.content, "tail"))
            seen = start
        if found is not None and len(found.content) < seen:
            yield ProgramStep(text=f"tail: {name}: file truncated\n", is_error=True)
            seen = 0
        if found is not None and len(found.content) > seen:
            yield ProgramStep(text=found.content[seen:].decode(errors="replace"))
            seen = len(found.content)
        yield ProgramStep(_POLL_SECONDS)


def _cut(context: ProcessContext, options: _CutOptions, given: str, name: str) -> Program:
    if options.problem:
        yield ProgramStep(text=f"{name}: {options.problem}\n", is_error=True)
        return 1
    code = 0
    for path in options.paths:
        found = context.container.files.file(posixpath.normpath(posixpath.join(context.folder, path)))
        if found is None:
            yield ProgramStep(
                text=f"{name}: cannot open '{path}' for reading: No such file or directory\n", is_error=True
            )
            code = 1
            continue
        if len(options.paths) > 1:
            yield ProgramStep(text=f"==> {path} <==\n")
        yield ProgramStep(text=_piece(options, found.content, name).decode(errors="replace"))
    if not options.paths:
        yield ProgramStep(text=_piece(options, given.encode(), name).decode(errors="replace"))
    return code


def _piece(options: _CutOptions, content: bytes, name: str) -> bytes:
    """Return the wanted part of a content. Lines end at newlines only: a bar's carriage returns are within one."""
    if options.in_bytes:
        return _part(options, content, len(content), name)
    lines = content.split(b"\n")
    last = lines.pop()
    whole = [line + b"\n" for line in lines] + ([last] if last else [])
    return b"".join(_part(options, whole, len(whole), name))


def _part(options: _CutOptions, units: _Units, count: int, name: str) -> _Units:
    if name == "head":
        return units[: options.count]
    return units[max(0, options.count - 1) if options.from_start else max(0, count - options.count) :]


def _cut_options(arguments: Sequence[str]) -> _CutOptions:
    """Read `-n 5`, `-n5`, `-5`, `-n +3`, `-c +100`, `--lines=5`, `-f`, `-F`, `-nf 5` and file names."""
    options, rest = _CutOptions([]), list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            options.paths.append(word)
            continue
        name, _, value = word[1:].partition("=")
        if name in ("-lines", "-bytes") or name[:1] in ("n", "c"):
            value = value or (name[1:] if not name.startswith("-") else "") or (rest.pop(0) if rest else "")
            _count(options, value, in_bytes=name.lstrip("-").startswith(("c", "bytes")))
        elif name.isdigit():
            options.count = int(name)
        else:
            options.follow = options.follow or "f" in name.lower()
            options.retry = options.retry or "F" in name or name == "-retry"
    return options


def _count(options: _CutOptions, value: str, *, in_bytes: bool) -> None:
    digits = value.removeprefix("+")
    if not digits.isdigit():
        options.problem = f"invalid number of {'bytes' if in_bytes else 'lines'}: '{value}'"
        return
    options.count, options.in_bytes, options.from_start = int(digits), in_bytes, value.startswith("+")
