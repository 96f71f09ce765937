"""`find`, `stat` and `df`: what is where, how big and how old.

Source: findutils 4.8, coreutils 8.32 and busybox 1.36, the options that they share.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Sequence
from zlib import crc32

import msgspec

from actions.sandbox.workloads.files import FileView
from actions.sandbox.workloads.program import Program, Step
from actions.sandbox.workloads.terminal import Inside

_BLOCKS = 2_516_582_400
"""Of 1024 bytes: the size that a shared volume claims."""


class _FindOptions(msgspec.Struct):
    """What the arguments of `find` ask for."""

    roots: list[str] = msgspec.field(default_factory=list)
    pattern: str = "*"
    kind: str = ""
    command: list[str] = msgspec.field(default_factory=list)


def find(inside: Inside, arguments: Sequence[str], _given: str) -> Program:
    """`find ROOT… [-type f|d] [-name PATTERN] [-newer FILE] [-exec stat|ls … {} +]`.

    `-newer` is taken as true: volumes of the sandbox are younger than its containers.
    """
    wish, code = _find_options(arguments), 0
    found: list[str] = []
    for root in wish.roots or ["."]:
        path = _path(inside, root)
        if not _is_there(inside.container.files, path):
            yield Step(text=f"find: '{root}': No such file or directory\n", is_error=True)
            code = 1
            continue
        found += _below(inside.container.files, path, wish)
    if wish.command[:1] == ["stat"] and found:
        yield from stat(inside, [*(word for word in wish.command[1:] if word not in ("{}", "+", ";")), *found], "")
    elif found:
        yield Step(text="".join(path + "\n" for path in found))
    else:
        yield Step()
    return code


def stat(inside: Inside, arguments: Sequence[str], _given: str) -> Program:
    """`stat -c FORMAT FILE…` with `%n`, `%s`, `%i` and `%Y`."""
    words = list(arguments)
    form = words[words.index("-c") + 1] if "-c" in words[:-1] else "%n %s"
    code = 0
    for name in (word for word in words if word not in ("-c", form)):
        path = _path(inside, name)
        file = inside.container.files.file(path)
        if file is None and not inside.container.files.is_folder(path):
            yield Step(text=f"stat: cannot statx '{name}': No such file or directory\n", is_error=True)
            code = 1
            continue
        size, changed = (file.size_bytes, file.changed_at) if file else (4096, 0)
        values = {"%n": name, "%s": str(size), "%i": str(crc32(path.encode())), "%Y": str(int(changed))}
        text = form
        for sign, value in values.items():
            text = text.replace(sign, value)
        yield Step(text=text + "\n")
    return code


def df(inside: Inside, arguments: Sequence[str], _given: str) -> Program:
    """`df [-P] [-k] [PATH]`."""
    files = inside.container.files
    asked = [_path(inside, word) for word in arguments if not word.startswith("-")]
    points = [_mount_of(files, path) for path in asked] or files.mount_points()
    yield Step(text="Filesystem     1024-blocks        Used   Available Capacity Mounted on\n")
    for point in points:
        name, size = ("overlay", 104_857_600) if point == "/" else ("10.1.0.9@tcp:/eksml", _BLOCKS)
        used = sum(file.size_bytes for path in files.walk(point) if (file := files.file(path))) // 1024
        rest = max(size - used, 0)
        yield Step(text=f"{name:<14} {size:>11} {used:>11} {rest:>11} {used * 100 // size:>7}% {point}\n")
    return 0


def _find_options(arguments: Sequence[str]) -> _FindOptions:
    wish, words = _FindOptions(), list(arguments)
    while words and not words[0].startswith("-"):
        wish.roots.append(words.pop(0))
    while words:
        match words.pop(0):
            case "-name" if words:
                wish.pattern = words.pop(0)
            case "-type" if words:
                wish.kind = words.pop(0)
            case "-newer" if words:
                words.pop(0)
            case "-exec":
                wish.command, words = words, []
    return wish


def _below(files: FileView, path: str, wish: _FindOptions) -> list[str]:
    if wish.kind == "d":
        return [path] if files.is_folder(path) else []
    every = files.walk(path) if files.is_folder(path) else [path]
    return [name for name in every if fnmatch.fnmatch(posixpath.basename(name), wish.pattern)]


def _is_there(files: FileView, path: str) -> bool:
    return files.is_folder(path) or files.file(path) is not None


def _mount_of(files: FileView, path: str) -> str:
    under = [point for point in files.mount_points() if point in ("/", path) or path.startswith(point + "/")]
    return max(under, key=len)


def _path(inside: Inside, path: str) -> str:
    return posixpath.normpath(posixpath.join(inside.folder, path))
