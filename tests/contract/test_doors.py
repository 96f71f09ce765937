"""One door for files that others may have made, and one for the numbers in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_DOOR = "actions/base/files.py"
_READS = {"read_bytes", "read_text", "fromfile", "loadtxt", "genfromtxt", "memmap"}
_OPENERS = {
    "open",
    "io.open",
    "os.open",
    "gzip.open",
    "bz2.open",
    "lzma.open",
    "codecs.open",
    "tarfile.open",
    "mmap.mmap",
}
_MODE = re.compile(r"[rwaxbt+]{1,4}")
_ALLOWED = {
    "actions/base/linux.py": "the kernel's tables",
    "actions/base/process.py": "the kernel's tables, and the output of a child, which is written",
    "actions/run/watchdog/script.py": "it is alone in a pod, without this program",
    "actions/run/journal/journal_file.py": "read beside its writers; the kind of file is checked after opening",
    "actions/run/journal/folder.py": "blocks of a fixed size, of which a bounded part is read by pread",
    "actions/run/journal/run_ids.py": "a list that is locked while it is read and written",
    "actions/run/output/segments.py": "segments of a known length, read by pread; and a tail that is open all the time",
    "actions/blueprint/sharing/origins.py": "a lock",
    "actions/run/launch.py": "a lock",
    "actions/sandbox/locate.py": "a lock",
    "actions/terraform/modules.py": "archives that are in memory",
    "actions/run/store/files.py": "archives that are in memory",
    "actions/run/store/archive.py": "scratch files, which are written and read again",
    "actions/run/support/archive.py": "an archive that is made anew",
    "actions/sandbox/audit.py": "a log that is written",
    "actions/script/artifacts.py": "folders, and files that are written",
    "tui/terminal/output.py": "the terminal",
    "tui/cli/streams.py": "/dev/null",
}
"""Modules that open files by themselves, each with the reason."""


def _modules() -> Iterator[Path]:
    for package in ("actions", "tui"):
        yield from sorted((_ROOT / package).rglob("*.py"))


def bare_reads(source: str) -> list[int]:
    """Return the lines in which a module opens a file to be read, or reads one, by itself."""
    return sorted(
        {node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and _is_bare(node)}
    )


def _is_bare(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    if name in _OPENERS:
        return not _only_makes(call)
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in _READS:
        return True
    mode = call.args[0] if call.args else next((one.value for one in call.keywords if one.arg == "mode"), None)
    is_mode = isinstance(mode, ast.Constant) and isinstance(mode.value, str) and _MODE.fullmatch(mode.value) is not None
    if is_mode and isinstance(mode, ast.Constant) and not {"r", "+"} & set(str(mode.value)):
        return False
    has_encoding = any(one.arg in ("encoding", "buffering", "errors") for one in call.keywords)
    is_of_path = not call.args and re.search(r"(?:path|file|folder)\w*$", ast.unparse(call.func.value)) is not None
    return call.func.attr == "open" and (is_mode or has_encoding or (is_of_path and "archive" not in name))


def _only_makes(call: ast.Call) -> bool:
    """Return whether a file is opened that this call makes: what is in one that is there is not looked at."""
    flags = " ".join(map(ast.unparse, call.args[1:]))
    return "os.O_EXCL" in flags or ("os.O_WRONLY" in flags and "os.O_CREAT" in flags)


def test_files_are_opened_by_the_door_alone() -> None:
    found = {}
    for path in _modules():
        name = path.relative_to(_ROOT).as_posix()
        lines = bare_reads(path.read_text(encoding="utf-8"))
        if lines and name != _DOOR:
            found[name] = lines
    unknown = {name: lines for name, lines in found.items() if name not in _ALLOWED}
    assert not unknown, f"Use read_file or open_file of {_DOOR}: {unknown}"
    assert not set(_ALLOWED) - set(found), "an exception that nothing needs"


@pytest.mark.parametrize(
    "line",
    [
        "path.read_bytes()",
        "Path(name).read_text(encoding='utf-8')",
        "open(name)",
        "io.open(name, 'rb')",
        "(folder / 'x').open('rb')",
        "path.open()",
        "file.open(encoding='utf-8')",
        "os.open(name, os.O_RDONLY | os.O_CLOEXEC)",
        "gzip.open(name)",
        "np.fromfile(name)",
    ],
)
def test_each_way_past_the_door_is_found(line: str) -> None:
    assert bare_reads(line) == [1]


@pytest.mark.parametrize(
    "line",
    [
        "read_file(path)",
        "self._prompt.open(text, sign=sign)",
        "await place.open()",
        "os.open(name, os.O_WRONLY | os.O_CREAT)",
    ],
)
def test_what_only_sounds_like_it_is_not(line: str) -> None:
    assert bare_reads(f"async def f():\n  {line}") == []
