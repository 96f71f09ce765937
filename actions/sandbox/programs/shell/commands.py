"""The commands that a shell in a container finds on its path, and `aws s3 sync` among them.

`aws s3 sync` prints a line for each file, as fast as a network of 1 GB/s; buckets `denied-…` refuse it.

Source: AWS CLI 2.22, `aws s3 sync help`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from actions.sandbox.programs import mpirun
from actions.sandbox.programs.nccl.fabric import list_adapters
from actions.sandbox.programs.neuron.tools import run_neuron_monitor
from actions.sandbox.programs.nvidia import run_nvidia_smi, run_nvlink
from actions.sandbox.programs.program import ProcessContext, Program, ProgramStep
from actions.sandbox.programs.shell.file_commands import df, find, grep, head, stat, tail

_BYTES_PER_SECOND = 1e9
_LEAST_SECONDS = 0.02
_USAGE = 252


def aws(context: ProcessContext, arguments: Sequence[str], _given: str) -> Program:
    """`aws s3 sync FOLDER s3://BUCKET/PREFIX`; anything else is refused."""
    words = [word for word in arguments if not word.startswith("-")]
    if list(arguments[:2]) != ["s3", "sync"] or len(words) < 4:
        yield ProgramStep(text="aws: the sandbox has `aws s3 sync FOLDER s3://BUCKET/PREFIX` only\n", is_error=True)
        return _USAGE
    source, target = words[2], words[3].rstrip("/")
    files, is_denied = context.container.files, target.startswith("s3://denied")
    root = posixpath.normpath(posixpath.join(context.folder, source))
    if not files.is_folder(root):
        yield ProgramStep(text=f"The user-provided path {source} does not exist.\n", is_error=True)
        return 255
    for path in files.walk(root):
        found, name = files.file(path), posixpath.relpath(path, root)
        if is_denied:
            words_of_s3 = "An error occurred (AccessDenied) when calling the PutObject operation: Access Denied"
            yield ProgramStep(0.1, f"upload failed: {path} to {target}/{name} {words_of_s3}\n", is_error=True)
            continue
        seconds = max(_LEAST_SECONDS, (found.size_bytes if found else 0) / _BYTES_PER_SECOND)
        yield ProgramStep(min(seconds, 1.0), f"upload: {path} to {target}/{name}\n")
    return 1 if is_denied else 0


Command = Callable[[ProcessContext, Sequence[str], str], Program]
"""A command: its surroundings, its arguments and what comes in by standard input."""

NOT_FOUND = 127


def _fail(text: str, code: int) -> Program:
    yield ProgramStep(text=text + "\n", is_error=True)
    return code


def _print(text: str) -> Program:
    if text:
        yield ProgramStep(text=text)
    return 0


def _path(context: ProcessContext, path: str) -> str:
    return posixpath.normpath(posixpath.join(context.folder, path))


def _echo(context: ProcessContext, arguments: Sequence[str], _given: str) -> Program:
    if arguments and arguments[0] == "-n":
        return (yield from _print(" ".join(arguments[1:])))
    return (yield from _print(" ".join(arguments) + "\n"))


def _ls(context: ProcessContext, arguments: Sequence[str], _given: str) -> Program:
    options = "".join(argument[1:] for argument in arguments if argument.startswith("-"))
    targets = [argument for argument in arguments if not argument.startswith("-")] or ["."]
    files, code = context.container.files, 0
    for target in targets:
        path = _path(context, target)
        if files.is_folder(path):
            if len(targets) > 1:
                yield ProgramStep(text=f"{target}:\n")
            rows = [
                _ls_row(context, posixpath.join(path, name), name, long="l" in options) for name in files.names(path)
            ]
            yield from _print("".join(row + "\n" for row in rows))
        elif files.file(path):
            yield ProgramStep(text=_ls_row(context, path, target, long="l" in options) + "\n")
        else:
            code = yield from _fail(f"ls: cannot access '{target}': No such file or directory", 2)
    return code


def _ls_row(context: ProcessContext, path: str, name: str, *, long: bool) -> str:
    if not long:
        return name
    found = context.container.files.file(path)
    date = datetime.fromtimestamp(context.container.started_at, UTC).strftime("%b %e %H:%M")
    return (
        f"{'-rw-r--r--' if found else 'drwxr-xr-x'} 1 root root {found.size_bytes if found else 4096:>11} {date} {name}"
    )


def _contents(context: ProcessContext, paths: Sequence[str], given: str) -> tuple[str, str]:
    """Return the joined texts of files, or else the input; the second value is the first path that is not a file."""
    texts = []
    for path in paths:
        found = context.container.files.file(_path(context, path))
        if found is None:
            return "", path
        texts.append(found.content.decode(errors="replace"))
    return ("".join(texts) if paths else given), ""


def _cat(context: ProcessContext, arguments: Sequence[str], given: str) -> Program:
    text, missing = _contents(context, arguments, given)
    if missing:
        return (yield from _fail(f"cat: {missing}: No such file or directory", 1))
    return (yield from _print(text))


def _wc(context: ProcessContext, arguments: Sequence[str], given: str) -> Program:
    options = "".join(argument[1:] for argument in arguments if argument.startswith("-")) or "lwc"
    paths = [argument for argument in arguments if not argument.startswith("-")]
    text, missing = _contents(context, paths, given)
    if missing:
        return (yield from _fail(f"wc: {missing}: No such file or directory", 1))
    counts = {"l": text.count("\n"), "w": len(text.split()), "c": len(text.encode())}
    return (yield from _print(" ".join(str(counts[key]) for key in "lwc" if key in options) + "\n"))


def _test(context: ProcessContext, arguments: Sequence[str], _given: str) -> Program:
    """`test -f`, `-d`, `-e`, `-s`, `-n`, `-z`, `=`, `-eq`, `-ge`, with `!`."""
    yield ProgramStep()
    words = [word for word in arguments if word != "]"]
    negate = bool(words) and words[0] == "!"
    words = words[1:] if negate else words
    return 0 if _holds(context, words) != negate else 1


def _holds(context: ProcessContext, words: list[str]) -> bool:
    files = context.container.files
    match words:
        case ["-f" | "-s", path]:
            found = files.file(_path(context, path))
            return found is not None and (words[0] == "-f" or found.size_bytes > 0)
        case ["-d", path]:
            return files.is_folder(_path(context, path))
        case ["-e", path]:
            return files.is_folder(_path(context, path)) or files.file(_path(context, path)) is not None
        case ["-n", text] | [text]:
            return bool(text)
        case ["-z", text]:
            return not text
        case [left, "=", right]:
            return left == right
        case [left, "-eq" | "-ge" as operator, right] if left.isdigit() and right.isdigit():
            return int(left) == int(right) if operator == "-eq" else int(left) >= int(right)
    return False


def _cd(context: ProcessContext, arguments: Sequence[str], _given: str) -> Program:
    target = _path(context, arguments[0] if arguments else "/root")
    if not context.container.files.is_folder(target):
        return (yield from _fail(f"cd: {arguments[0] if arguments else target}: No such file or directory", 1))
    context.folder = target
    return 0


def _mkdir(context: ProcessContext, arguments: Sequence[str], _given: str) -> Program:
    yield ProgramStep()
    for path in arguments:
        if not path.startswith("-"):
            context.container.files.make_folder(_path(context, path))
    return 0


def _rm(context: ProcessContext, arguments: Sequence[str], _given: str) -> Program:
    is_forced, code = any(word.startswith("-") and "f" in word for word in arguments), 0
    for path in arguments:
        if path.startswith("-") or context.container.files.remove(_path(context, path)) or is_forced:
            continue
        code = yield from _fail(f"rm: cannot remove '{path}': No such file or directory", 1)
    return code


def _sleep(_context: ProcessContext, arguments: Sequence[str], _given: str) -> Program:
    text = arguments[0] if arguments else ""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    seconds = text[:-1] if text[-1:] in units else text
    if text in ("infinity", "inf"):
        while True:
            yield ProgramStep(3600.0)
    if not seconds.replace(".", "", 1).isdigit():
        return (yield from _fail(f"sleep: invalid time interval '{text}'", 1))
    yield ProgramStep(float(seconds) * units.get(text[-1:], 1))
    return 0


def _environment(context: ProcessContext, arguments: Sequence[str], _given: str) -> Program:
    known = context.container.environment | context.variables
    if arguments:
        return (yield from _print(known[arguments[0]] + "\n")) if arguments[0] in known else 1
    return (yield from _print("".join(f"{name}={value}\n" for name, value in sorted(known.items()))))


def _hostname(context: ProcessContext, _arguments: Sequence[str], _given: str) -> Program:
    return (yield from _print(context.container.pod + "\n"))


def _pwd(context: ProcessContext, _arguments: Sequence[str], _given: str) -> Program:
    return (yield from _print(context.folder + "\n"))


def _date(context: ProcessContext, _arguments: Sequence[str], _given: str) -> Program:
    return (yield from _print(datetime.fromtimestamp(context.now(), UTC).strftime("%a %b %e %H:%M:%S UTC %Y\n")))


def _true(_context: ProcessContext, _arguments: Sequence[str], _given: str) -> Program:
    yield ProgramStep()
    return 0


def _false(_context: ProcessContext, _arguments: Sequence[str], _given: str) -> Program:
    yield ProgramStep()
    return 1


def _nvidia_smi(context: ProcessContext, arguments: Sequence[str], _given: str) -> Program:
    if arguments[:1] == ["nvlink"]:
        return (yield from run_nvlink(context.container, context.busy_seconds(), arguments[1:]))
    return (yield from run_nvidia_smi(context.container, context.load, context.now, arguments))


def _neuron_monitor(context: ProcessContext, _arguments: Sequence[str], _given: str) -> Program:
    return (yield from run_neuron_monitor(context.container, context.load, context.now))


def _fi_info(context: ProcessContext, _arguments: Sequence[str], _given: str) -> Program:
    return (yield from list_adapters(context.container))


def _mpirun(context: ProcessContext, arguments: Sequence[str], _given: str) -> Program:
    known = replace(context.container, environment=context.container.environment | context.variables)
    return (yield from mpirun.launch(known, arguments))


_EVERYWHERE: dict[str, Command] = {
    "echo": _echo, "ls": _ls, "cat": _cat, "wc": _wc, "head": head, "tail": tail, "grep": grep,
    "find": find, "stat": stat,
    "test": _test, "[": _test, "mkdir": _mkdir, "rm": _rm, "df": df, "sleep": _sleep,
    "env": _environment, "printenv": _environment, "hostname": _hostname, "pwd": _pwd, "date": _date,
    "true": _true, "false": _false, "cd": _cd, ":": _true,
    "mpirun": _mpirun, "mpiexec": _mpirun, "fi_info": _fi_info, "aws": aws,
}  # fmt: skip


_FILTERS = frozenset({"cat", "wc", "head", "tail"})


def command_named(context: ProcessContext, name: str) -> Command | None:
    """Return the command of a name or path, `None` if the image has none. Images of accelerators bring their own."""
    base = posixpath.basename(name)
    if base == "nvidia-smi":
        return _nvidia_smi if context.container.gpus else None
    if base == "neuron-monitor":
        return _neuron_monitor if context.container.neurons else None
    return _EVERYWHERE.get(base)


def reads_input(argv: Sequence[str]) -> bool:
    """Return whether a command reads its standard input, as it names no file."""
    return bool(argv) and argv[0] in _FILTERS and all(word.startswith("-") for word in argv[1:])
