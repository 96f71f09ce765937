"""A small POSIX shell: lists, pipes, quotes, variables, output to files. Anything else is refused with a message."""

from __future__ import annotations

import fnmatch
import itertools
import posixpath
import re
import shlex
from collections.abc import Sequence

from actions.sandbox.programs.program import ProcessContext, Program, ProgramStep
from actions.sandbox.programs.shell.commands import NOT_FOUND, command_named

_LIST_OPERATORS = (";", "&&", "||")
_BEYOND = frozenset({"if", "for", "while", "until", "case", "function", "{", "(", ")", "&"})
_VARIABLE = re.compile(r"\$(?:\{(\w+|\?)\}|(\w+|\?))")
_BECOMES_SHELL = re.compile(r"\bexec\s+(?:\S*/)?(?:sh|bash|ash|dash)\s*$")
_ASSIGNMENT = re.compile(r"\w+=")
_MARK = "\x00"
_BROKEN_PIPE = 141
_TIMED_OUT = 124


class ShellExit(Exception):
    """`exit`: the shell ends with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def is_shell(argv: Sequence[str]) -> bool:
    """Return whether an argument list starts a shell."""
    return bool(argv) and posixpath.basename(argv[0]) in ("sh", "bash", "ash", "dash")


def script_of(argv: Sequence[str]) -> str | None:
    """The text after `-c` (alone or in a bundle such as `-ec`), `None` for an interactive shell."""
    for position, argument in enumerate(argv[1:], start=1):
        if re.fullmatch(r"-[a-z]*c[a-z]*", argument):
            return argv[position + 1] if position + 1 < len(argv) else ""
    return None


def operand_of(argv: Sequence[str]) -> Sequence[str]:
    """Return the words after the options of a shell without `-c`: a script's name and arguments, or nothing."""
    if script_of(argv) is not None:
        return ()
    return tuple(itertools.dropwhile(lambda word: word.startswith("-"), argv[1:]))


def is_interactive(argv: Sequence[str]) -> bool:
    """Return whether an argument list ends in an interactive shell: `sh`, or `sh -c "…; exec sh"`."""
    if not is_shell(argv):
        return False
    script = script_of(argv)
    if script is None and operand_of(argv):
        return False
    return script is None or _BECOMES_SHELL.search(script) is not None


def without_env(argv: Sequence[str]) -> Sequence[str]:
    """Return the program of `env NAME=VALUE … PROGRAM …`; any other argument list unchanged."""
    if not argv or posixpath.basename(argv[0]) != "env":
        return argv
    program = next((index for index, word in enumerate(argv[1:], start=1) if not _ASSIGNMENT.match(word)), None)
    return argv if program is None else argv[program:]


def run_argv(context: ProcessContext, argv: Sequence[str], given: str = "") -> Program:
    """Run an argument list as the container runtime does: a shell with its script, or one program."""
    if not is_shell(argv):
        return (yield from _run_command(context, list(argv), given))
    operand = operand_of(argv)
    if not operand:
        return (yield from run_script(context, script_of(argv) or given))
    found = context.container.files.file(posixpath.join(context.folder, operand[0]))
    if found is not None:
        return (yield from run_script(context, found.content.decode(errors="replace")))
    if command_named(context, operand[0]):
        return (yield from _run_command(context, list(operand), given))
    yield ProgramStep(text=f"{argv[0]}: {operand[0]}: No such file or directory\n", is_error=True)
    return NOT_FOUND


def run_script(context: ProcessContext, script: str) -> Program:
    """Run lines of shell and return the exit code of the last, or that of `exit`."""
    try:
        return (yield from run_lines(context, script))
    except ShellExit as leave:
        return leave.code


def run_lines(context: ProcessContext, script: str) -> Program:
    """Run lines of shell.

    Raises:
        ShellExit: A line was `exit`.
    """
    for line in script.replace("\\\n", " ").splitlines():
        try:
            tokens = _tokens(line)
        except ValueError:
            yield ProgramStep(text="sh: syntax error: unterminated quoted string\n", is_error=True)
            context.last_code = 2
            continue
        unsupported = next((token for token in tokens if token in _BEYOND), None)
        if unsupported is not None:
            yield ProgramStep(text=f"sh: syntax error: '{unsupported}' is more than this shell can do\n", is_error=True)
            context.last_code = 2
            continue
        yield from _run_list(context, tokens)
    return context.last_code


def _tokens(line: str) -> list[str]:
    lexer = shlex.shlex(_protect(line), posix=True, punctuation_chars=";&|<>()")
    lexer.whitespace_split = True
    return list(lexer)


def _protect(line: str) -> str:
    """Mark `$` and `*` inside single quotes, where they are plain characters; and keep `2>` one word."""
    parts = re.split(r"('[^']*')", line)
    marked = [
        part.replace("$", _MARK + "d").replace("*", _MARK + "s") if part.startswith("'") else _join_redirects(part)
        for part in parts
    ]
    return "".join(marked)


def _join_redirects(part: str) -> str:
    return re.sub(r"\b2>(&1|\s*\S+)", lambda found: _MARK + "e" + found.group(1).strip().lstrip("&") + " ", part)


def _unmark(word: str) -> str:
    return word.replace(_MARK + "d", "$").replace(_MARK + "s", "*")


def _run_list(context: ProcessContext, tokens: list[str]) -> Program:
    operator, start = ";", 0
    ends = [index for index, token in enumerate(tokens) if token in _LIST_OPERATORS] + [len(tokens)]
    for end in ends:
        is_wanted = operator == ";" or (operator == "&&") == (context.last_code == 0)
        if is_wanted and tokens[start:end]:
            context.last_code = yield from _run_pipe(context, tokens[start:end])
        operator = tokens[end] if end < len(tokens) else ";"
        start = end + 1
    return context.last_code


def _run_pipe(context: ProcessContext, tokens: list[str]) -> Program:
    stages: list[list[str]] = [[]]
    for word in tokens:
        if word == "|":
            stages.append([])
        else:
            stages[-1].append(word)
    given, code = "", 0
    for stage, following in itertools.pairwise(stages):
        collected: list[str] = []
        code = yield from _catch(_run_simple(context, stage, given), collected, most_lines=_lines_read_by(following))
        given = "".join(collected)
    code = yield from _run_simple(context, stages[-1], given)
    return code


def _lines_read_by(stage: Sequence[str]) -> int | None:
    """Return the number of lines after which a stage reads no more, which ends its writer; `None` if it reads all."""
    if not stage or stage[0] != "head":
        return None
    count = next((word.lstrip("-n") for word in stage[1:] if word.lstrip("-n").isdigit()), "10")
    return int(count)


def _catch(program: Program, into: list[str], *, most_lines: int | None = None) -> Program:
    """Run a program, keep what it writes to stdout and let the rest through."""
    while most_lines is None or sum(text.count("\n") for text in into) < most_lines:
        try:
            step = next(program)
        except StopIteration as end:
            return int(end.value or 0)
        if step.text and not step.is_error:
            into.append(step.text)
            yield ProgramStep(step.after_seconds)
        else:
            yield step
    program.close()
    return _BROKEN_PIPE


def _silence(program: Program) -> Program:
    while True:
        try:
            step = next(program)
        except StopIteration as end:
            return int(end.value or 0)
        yield ProgramStep(step.after_seconds) if step.is_error else step


def _run_simple(context: ProcessContext, tokens: list[str], given: str) -> Program:
    words, target, is_appending, is_quiet = _redirections(tokens)
    while words and re.match(r"[A-Za-z_]\w*=", words[0]):
        name, _, value = words.pop(0).partition("=")
        context.variables[name] = _expand(context, value)
    argv = [piece for word in words for piece in _glob(context, word)]
    if not argv:
        return 0
    program = _run_command(context, argv, given)
    if is_quiet:
        program = _silence(program)
    if not target:
        return (yield from program)
    collected: list[str] = []
    code = yield from _catch(program, collected)
    path = posixpath.join(context.folder, _expand(context, target))
    if path != "/dev/null":
        before = context.container.files.file(path) if is_appending else None
        content = (before.content if before else b"") + "".join(collected).encode()
        context.container.files.write(path, content)
    return code


def _redirections(tokens: list[str]) -> tuple[list[str], str, bool, bool]:
    """Split words into arguments, target of stdout, whether it appends, whether stderr is dropped (`2>/dev/null`)."""
    words: list[str] = []
    target, is_appending, is_quiet, index = "", False, False, 0
    while index < len(tokens):
        word = tokens[index]
        if word in (">", ">>") and index + 1 < len(tokens):
            target, is_appending = tokens[index + 1], word == ">>"
            index += 1
        elif word.startswith(_MARK + "e"):
            is_quiet = is_quiet or word.endswith("/dev/null")
        else:
            words.append(word)
        index += 1
    return words, target, is_appending, is_quiet


def _expand(context: ProcessContext, word: str) -> str:
    return _unmark(_VARIABLE.sub(lambda found: context.value(found.group(1) or found.group(2)), word))


def _glob(context: ProcessContext, word: str) -> list[str]:
    """The word with its variables, or the paths that its last part's `*` matches."""
    raw = _VARIABLE.sub(lambda found: context.value(found.group(1) or found.group(2)), word)
    if "*" not in raw:
        return [_unmark(raw)]
    found = [""]
    for part in raw.split("/"):
        found = [posixpath.join(path, name) for path in found for name in _matching(context, path, part)]
    return [path for path in found if _is_there(context, path)] or [_unmark(raw)]


def _is_there(context: ProcessContext, path: str) -> bool:
    place, files = posixpath.normpath(posixpath.join(context.folder, path)), context.container.files
    return files.is_folder(place) or files.file(place) is not None


def _matching(context: ProcessContext, folder: str, part: str) -> list[str]:
    """Return the names that one step of a path with `*` matches, below an existing folder."""
    if "*" not in part:
        return [part or "/"]
    names = context.container.files.names(posixpath.join(context.folder, folder))
    return [name for name in names if fnmatch.fnmatch(name, part)]


def _run_command(context: ProcessContext, argv: list[str], given: str) -> Program:
    name = argv[0]
    if name == "exit":
        raise ShellExit(int(argv[1]) if len(argv) > 1 and argv[1].isdigit() else context.last_code)
    if name in ("set", "export", "exec"):
        return (yield from _special(context, argv, given))
    if name == "timeout":
        return (yield from _limited(context, argv[1:], given))
    if is_shell(argv):
        return (yield from run_argv(context, argv, given))
    command = command_named(context, name)
    if command is None:
        yield ProgramStep(text=f"sh: {name}: not found\n", is_error=True)
        return NOT_FOUND
    return (yield from command(context, argv[1:], given))


def _limited(context: ProcessContext, words: list[str], given: str) -> Program:
    """Run `timeout SECONDS COMMAND…`."""
    left = float(words[0].removesuffix("s"))
    program = _run_command(context, words[1:], given)
    while True:
        try:
            step = next(program)
        except StopIteration as end:
            return int(end.value or 0)
        if step.after_seconds > left:
            yield ProgramStep(left)
            program.close()
            return _TIMED_OUT
        left -= step.after_seconds
        yield step


def _special(context: ProcessContext, argv: list[str], given: str) -> Program:
    if argv[0] == "exec" and len(argv) > 1:
        raise ShellExit((yield from _run_command(context, argv[1:], given)))
    if argv[0] == "export":
        for word in argv[1:]:
            name, has_value, value = word.partition("=")
            if has_value:
                context.variables[name] = value
    return 0
