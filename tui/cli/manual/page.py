"""`eksml-tui man`: the manual page, generated from the parser of the command line, as is `docs/command-line.md`.

Macros are those of man(7), as groff and mandoc read them.
"""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence

from tui.cli.arguments import VERSION, parser, subcommands_of
from tui.cli.examples import EXAMPLES, GROUPS
from tui.cli.options import known_words

_NAME = "eksml-tui"
_FEW = 6
"""So many commands are named behind an option that they share."""
_EXIT_CODES = (
    ("0", "Done, or passed."),
    ("1", "It could not be done; the sentence on stderr has the remedy."),
    ("2", "Wrong usage, a value out of its bounds, or a file with a mistake."),
    ("3", "A teardown left something behind, or its audit could not check everything."),
    ("129, 130, 143", "Hung up, interrupted or terminated."),
)
_FILES = (
    ("~/.config/eksml-tui", "Keys (keys.yaml), prices (prices.csv), blueprints of your own."),
    ("~/.local/state/eksml-tui", "Runs: a folder each, with journal, logs and curves."),
    ("~/.cache/eksml-tui", "Snapshots of clusters, and what can be downloaded again."),
)
_VARIABLES = (
    ("KUBECONFIG", "The kubeconfig, or several, separated by colons."),
    ("AWS_PROFILE, AWS_REGION", "As for all AWS tools."),
    ("EKSML_TUI_NAME", "The setting of this name: EKSML_TUI_CONTEXT, EKSML_TUI_THEME. Written as in config.yaml."),
    ("NO_COLOR", "Draw without colours."),
    ("XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_CACHE_HOME", "Replace the folders below."),
)


def run(options: Namespace) -> int:
    """Print the page."""
    del options
    sys.stdout.write(manual_page(parser()))
    return 0


def print_help(options: Namespace) -> int:
    """Print the help of a command; exit with code 2 if there is none of these words."""
    found = parser()
    for place, word in enumerate(options.words):
        below = subcommands_of(found)
        if word not in below:
            found.error(known_words("VERB" if place else "COMMAND", word, list(below)))
        found = below[word]
    sys.stdout.write(found.format_help())
    return 0


def print_version(options: Namespace) -> int:
    """Print the program's version."""
    del options
    sys.stdout.write(f"{_NAME} {VERSION}\n")
    return 0


def manual_page(top: argparse.ArgumentParser) -> str:
    """Return the page of a command line, in roff."""
    return "\n".join([*_head(), *_options(top), *_commands(top), *_end()]) + "\n"


def command_line_page() -> str:
    """Return the text of docs/command-line.md."""
    top = parser()
    uses: dict[str, list[str]] = {}
    for path, command in _paths(top):
        for row in _rows(command):
            uses.setdefault(row, []).append(path)
    console = _rows(top)
    common = [row for row in console if row in uses]
    lines = [
        "# Command line",
        "",
        "Generated from the program's parser, as is `--help`.",
        "",
        "## Common options",
        "",
    ]
    lines += ["Of the console and of most commands:", "", *common, ""]
    lines += ["Of the commands in brackets, or of many:", ""]
    shared = [row for row, paths in uses.items() if len(paths) > 1 and row not in common]
    shared.sort(key=lambda row: len(uses[row]) <= _FEW)
    lines += [row + _names(uses[row]) for row in shared]
    lines += ["", "## The console", "", *(row for row in console if row not in common), ""]
    for path, command in _paths(top):
        if group := GROUPS.get(path):
            lines += [f"## {group}", ""]
        lines += [f"### {path}", "", command.description or "", ""]
        lines += [*(f"    {line}" for line in EXAMPLES.get(path, ())), ""]
        if own := [row for row in _rows(command) if row not in common and row not in shared]:
            lines += [*own, ""]
    return "\n".join(lines)


def _names(paths: Sequence[str]) -> str:
    return "" if len(paths) > _FEW else f" ({', '.join(paths)})"


def _paths(command: argparse.ArgumentParser, words: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the commands below a command, each with its words."""
    for name, below in subcommands_of(command).items():
        path = f"{words} {name}".strip()
        yield path, below
        yield from _paths(below, path)


def _rows(command: argparse.ArgumentParser) -> list[str]:
    return [_row(each) for each in command._actions if _is_described(each) and "-h" not in each.option_strings]  # noqa: SLF001


def _row(action: argparse.Action) -> str:
    return f"* `{' '.join(filter(None, _label(action)))}`: {_help_of(action)}"


def _head() -> Iterator[str]:
    yield f'.TH {_roff(_NAME).upper()} 1 "" "{_roff(_NAME)} {VERSION}" "User Commands"'
    yield ".SH NAME"
    yield f"{_roff(_NAME)} \\- the console for people who train models on Amazon EKS"
    yield ".SH SYNOPSIS"
    yield f".B {_roff(_NAME)}\n[\\fIOPTION\\fR]...\n.br\n.B {_roff(_NAME)}\n\\fICOMMAND\\fR [\\fIARGUMENT\\fR]..."
    yield ".SH DESCRIPTION"
    yield "Without a command, a console opens on the kubeconfig's context: nodes with their cost, pods, runs of"
    yield "blueprints, logs, accelerators and curves. A command prints or does one thing, then exits."
    yield "Options may come before or after a command's other words."


def _options(command: argparse.ArgumentParser) -> Iterator[str]:
    yield ".SH OPTIONS"
    yield from _described(command)


def _commands(top: argparse.ArgumentParser) -> Iterator[str]:
    console = [_row(action) for action in top._actions]  # noqa: SLF001
    for path, below in _paths(top):
        if group := GROUPS.get(path):
            yield f".SH {_roff(group).upper()}"
        usage = [_usage_of(action) for action in below._actions if not action.option_strings]  # noqa: SLF001
        yield f'.SS "{_roff(path)}{"".join(f" {_roff(word)}" for word in usage)}"'
        yield _roff(below.description or "")
        yield from _described(below, console)
        if lines := EXAMPLES.get(path):
            yield ".PP\n.EX"
            yield from (_roff(line) for line in lines)
            yield ".EE"


def _described(command: argparse.ArgumentParser, above: Sequence[str] = ()) -> Iterator[str]:
    """Yield a paragraph for each option and each word that has a help text, and that is not described above."""
    for action in command._actions:  # noqa: SLF001
        if not _is_described(action) or _row(action) in above:
            continue
        names, value = _label(action)
        yield ".TP"
        yield f".B {_roff(names)}" + (f" \\fI{_roff(value)}\\fR" if value else "")
        yield _roff(_help_of(action))


def _is_described(action: argparse.Action) -> bool:
    return not isinstance(action, argparse._SubParsersAction) and action.help not in (None, "", argparse.SUPPRESS)  # noqa: SLF001


def _help_of(action: argparse.Action) -> str:
    return (action.help or "") % {"prog": _NAME}


def _label(action: argparse.Action) -> tuple[str, str]:
    """Return an option's names and its value, or a word as usage shows it."""
    if not action.option_strings:
        return _usage_of(action), ""
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    return ", ".join(action.option_strings), "" if action.nargs == 0 else str(value)


def _usage_of(action: argparse.Action) -> str:
    if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
        return str(action.metavar)
    name = str(action.metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest))
    if action.nargs == "?":
        return f"[{name}]"
    return {"*": f"[{name} ...]", "+": f"{name} ..."}.get(str(action.nargs), name)


def _end() -> Iterator[str]:
    for title, rows in (("EXIT STATUS", _EXIT_CODES), ("ENVIRONMENT", _VARIABLES), ("FILES", _FILES)):
        yield f".SH {title}"
        for name, text in rows:
            yield f".TP\n.B {_roff(name)}\n{_roff(text)}"
    yield ".SH SEE ALSO"
    yield ".BR kubectl (1),\n.BR aws (1),\n.BR terraform (1)"


def _roff(text: str) -> str:
    """Return a text in which nothing is a request or an escape of roff."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    for character, name in (("…", "..."), ("–", "\\-"), ("×", "\\(mu"), ("’", "\\(cq")):
        escaped = escaped.replace(character, name)
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
