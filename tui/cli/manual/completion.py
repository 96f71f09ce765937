"""`eksml-tui completion SHELL`: the completion of the command line, generated from its parser.

Commands, options and fixed values are in the script; names of blueprints and runs are printed by the program, and files
are left to the shell. Nothing is looked up in a cluster: a completion has to answer at once.
"""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence

import msgspec

from tui.cli.arguments import parser, subcommands_of

_PROGRAM = "eksml-tui"
_FILES = frozenset({"FILE", "DIR", "FOLDER"})


class CompletedCommand(msgspec.Struct, frozen=True):
    """One command as a shell completes it.

    Args:
        words: The words of the command, without the program's name; empty for the program itself.
        help: What it does.
        commands: The commands below it, with their help.
        options: Its options.
        places: What may stand in its positional places, one after the other.
    """

    words: tuple[str, ...]
    help: str
    commands: tuple[tuple[str, str], ...]
    options: tuple[CompletedOption, ...]
    places: tuple[CompletedPlace, ...]


class CompletedPlace(msgspec.Struct, frozen=True):
    """The words of one place: fixed words, names of a kind (`runs`, `blueprints`), or files."""

    choices: tuple[str, ...] = ()
    names: str = ""
    is_file: bool = False
    repeats: bool = False


class CompletedOption(msgspec.Struct, frozen=True):
    """An option, and its value; `value` is `None` for a flag."""

    names: tuple[str, ...]
    help: str
    value: CompletedPlace | None


def run(options: Namespace) -> int:
    """Print the script for a shell."""
    commands = list(completed(parser()))
    sys.stdout.write({"bash": bash_script, "zsh": zsh_script, "fish": fish_script}[options.shell](commands))
    return 0


def completed(
    command: argparse.ArgumentParser, words: tuple[str, ...] = (), text: str = ""
) -> Iterator[CompletedCommand]:
    """Yield a command, and all commands below it."""
    below = subcommands_of(command)
    helps = {name: _sentence(each.description or "") for name, each in below.items()}
    options = tuple(_option(action) for action in command._actions if action.option_strings)  # noqa: SLF001
    places = tuple(
        _place(action, words)
        for action in command._actions  # noqa: SLF001
        if not action.option_strings and not isinstance(action, argparse._SubParsersAction)  # noqa: SLF001
    )
    yield CompletedCommand(words, text, tuple(helps.items()), options, places)
    for name, each in below.items():
        yield from completed(each, (*words, name), helps[name])


def _option(action: argparse.Action) -> CompletedOption:
    value = None if action.nargs == 0 else _place(action, ())
    return CompletedOption(tuple(action.option_strings), _sentence(action.help or ""), value)


def _place(action: argparse.Action, words: tuple[str, ...]) -> CompletedPlace:
    repeats = action.nargs in ("*", "+")
    if action.choices:
        return CompletedPlace(choices=tuple(map(str, action.choices)), repeats=repeats)
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    if metavar == "RUN" or action.dest in ("run", "of_run"):
        return CompletedPlace(names="runs", repeats=repeats)
    if metavar == "BLUEPRINT" or words == ("blueprints",):
        return CompletedPlace(names="blueprints", repeats=repeats)
    return CompletedPlace(is_file=metavar in _FILES, repeats=repeats)


def _sentence(text: str) -> str:
    return text % {"prog": _PROGRAM} if "%(" in text else text


_IDS = '2>/dev/null | sed -n \'s/^ *"id": "\\([^"]*\\)".*$/\\1/p\''
_NAMES = {"runs": f"{_PROGRAM} runs list -o json {_IDS}", "blueprints": f"{_PROGRAM} blueprints -o json {_IDS}"}
"""A command that prints the names of a kind, one a line."""


def _quoted(text: str) -> str:
    """Return a text as one word of a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def bash_script(commands: Sequence[CompletedCommand]) -> str:
    """Return the completion for bash 4 or later."""
    cases = "\n".join(_bash_case(command) for command in commands)
    paths = " ".join(_quoted(" ".join(command.words)) for command in commands if command.words)
    valued = "\n".join(
        f"        {_quoted(' '.join(command.words))}) echo {_quoted(' '.join(_valued(command)))} ;;"
        for command in commands
    )
    return _BASH.format(paths=paths, valued=valued, cases=cases, runs=_NAMES["runs"], blueprints=_NAMES["blueprints"])


def _valued(command: CompletedCommand) -> list[str]:
    return [name for option in command.options if option.value is not None for name in option.names]


def _bash_case(command: CompletedCommand) -> str:
    lines = [f"        {_quoted(' '.join(command.words))})"]
    lines.append('            case "$prev" in')
    for option in command.options:
        if option.value is not None:
            lines.append(f"                {'|'.join(option.names)}) {_bash_reply(option.value)}; return ;;")
    lines.append("            esac")
    names = " ".join(name for option in command.options for name in option.names)
    lines.append(f'            if [[ "$cur" == -* ]]; then _eksml_tui_words {_quoted(names)}; return; fi')
    if command.commands:
        lines.append(f"            _eksml_tui_words {_quoted(' '.join(name for name, _ in command.commands))} ;;")
        return "\n".join(lines)
    lines.append('            case "$place" in')
    for number, place in enumerate(command.places):
        pattern = "*" if place.repeats else str(number)
        lines.append(f"                {pattern}) {_bash_reply(place)} ;;")
    lines += ["            esac ;;"]
    return "\n".join(lines)


def _bash_reply(place: CompletedPlace) -> str:
    if place.choices:
        return f"_eksml_tui_words {_quoted(' '.join(place.choices))}"
    if place.names:
        return f"_eksml_tui_names {place.names}"
    return "_eksml_tui_files" if place.is_file else ":"


_BASH = """\
# bash completion of eksml-tui, made by: eksml-tui completion bash
_eksml_tui_words() {{ COMPREPLY=($(compgen -W "$1" -- "$cur")); }}
_eksml_tui_files() {{ compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur")); }}
_eksml_tui_names() {{
    local names=""
    case "$1" in
        runs) names="latest $({runs})" ;;
        blueprints) names="$({blueprints})" ;;
    esac
    _eksml_tui_words "$names"
}}
_eksml_tui_valued() {{
    case "$1" in
{valued}
    esac
}}
_eksml_tui() {{
    local cur prev path="" place=0 word skip="" index
    local -a paths=({paths})
    cur="${{COMP_WORDS[COMP_CWORD]}}"
    prev="${{COMP_WORDS[COMP_CWORD-1]}}"
    COMPREPLY=()
    for ((index = 1; index < COMP_CWORD; index++)); do
        word="${{COMP_WORDS[index]}}"
        if [[ -n "$skip" ]]; then skip=""; continue; fi
        if [[ "$word" == -* && "$word" != "-" ]]; then
            [[ " $(_eksml_tui_valued "$path") " == *" $word "* ]] && skip=1
            continue
        fi
        local longer="${{path:+$path }}$word" known="" each
        for each in "${{paths[@]}}"; do [[ "$each" == "$longer" ]] && known=1; done
        if [[ -n "$known" && $place == 0 ]]; then path="$longer"; else place=$((place + 1)); fi
    done
    case "$path" in
{cases}
    esac
}}
complete -F _eksml_tui eksml-tui
"""


def zsh_script(commands: Sequence[CompletedCommand]) -> str:
    """Return the completion for zsh: a function for each command."""
    functions = "\n".join(_zsh_function(command) for command in commands)
    return (
        "#compdef eksml-tui\n# zsh completion of eksml-tui, made by: eksml-tui completion zsh\n"
        f'_eksml_tui_names_of_runs() {{ compadd latest ${{(f)"$({_NAMES["runs"]})"}} }}\n'
        f'_eksml_tui_names_of_blueprints() {{ compadd ${{(f)"$({_NAMES["blueprints"]})"}} }}\n'
        f'{functions}\nif [[ "$funcstack[1]" == _eksml-tui ]]; then _eksml_tui "$@"; '
        "else compdef _eksml_tui eksml-tui; fi\n"
    )


def _zsh_name(words: Sequence[str]) -> str:
    return "_".join(("_eksml_tui", *(word.replace("-", "_") for word in words)))


def _zsh_function(command: CompletedCommand) -> str:
    name = _zsh_name(command.words)
    arguments: list[str] = []
    for option in command.options:
        for each in option.names:
            value = f":value:{_zsh_action(option.value)}" if option.value is not None else ""
            arguments.append(_quoted(f"{each}[{_zsh_text(option.help)}]{value}"))
    lines = [f"{name}() {{", "    local context state state_descr line", "    typeset -A opt_args"]
    if command.commands:
        arguments += [_quoted("1:command:->command"), _quoted("*::argument:->argument")]
        lines.append(f"    _arguments -C {' '.join(arguments)} && return")
        described = " ".join(_quoted(f"{each}:{_zsh_text(text)}") for each, text in command.commands)
        cases = " ".join(f"{each}) {_zsh_name((*command.words, each))} ;;" for each, _ in command.commands)
        lines += [
            '    case "$state" in',
            f"        command) local -a commands=({described}); _describe command commands ;;",
            f'        argument) case "$line[1]" in {cases} esac ;;',
            "    esac",
        ]
    else:
        for number, place in enumerate(command.places, 1):
            where = "*" if place.repeats else str(number)
            arguments.append(_quoted(f"{where}:argument:{_zsh_action(place)}"))
        lines.append(f"    _arguments {' '.join(arguments)}")
    return "\n".join([*lines, "}"])


def _zsh_action(place: CompletedPlace) -> str:
    if place.choices:
        return f"({' '.join(place.choices)})"
    if place.names:
        return f"_eksml_tui_names_of_{place.names}"  # no command is called so
    return "_files" if place.is_file else " "


def _zsh_text(text: str) -> str:
    for special in "\\:[]":
        text = text.replace(special, f"\\{special}")
    return text


def fish_script(commands: Sequence[CompletedCommand]) -> str:
    """Return the completion for fish."""
    valued = {name for command in commands for name in _valued(command)}
    flags = {name for command in commands for option in command.options for name in option.names} - valued
    lines = [_FISH.format(valued=" ".join(sorted(valued - flags)))]
    for command in commands:
        lines += _fish_lines(command)
    return "\n".join(lines) + "\n"


_FISH = """\
# fish completion of eksml-tui, made by: eksml-tui completion fish
complete -c eksml-tui -f
function __eksml_tui_at # PATH [PLACE]: after these words, at this place behind them
    set -l valued {valued}
    set -l plain
    set -l skips 0
    for word in (commandline -opc)[2..]
        if test $skips = 1
            set skips 0
        else if string match -q -- '-*' $word
            contains -- $word $valued; and set skips 1
        else
            set -a plain $word
        end
    end
    set -l wanted (string split " " -- $argv[1])
    test -z "$argv[1]"; and set wanted
    test (count $plain) -ge (count $wanted); or return 1
    for index in (seq (count $wanted))
        test "$plain[$index]" = "$wanted[$index]"; or return 1
    end
    test (count $argv) -lt 2; or test (math (count $plain) - (count $wanted)) -eq "$argv[2]"
end"""


def _fish_lines(command: CompletedCommand) -> Iterator[str]:
    path = " ".join(command.words)
    here = f"complete -c eksml-tui -n {_fish_quoted(f'__eksml_tui_at {_quoted(path)}')}"

    def at(place: int) -> str:
        return f"complete -c eksml-tui -n {_fish_quoted(f'__eksml_tui_at {_quoted(path)} {place}')}"

    for name, text in command.commands:
        yield f"{at(0)} -a {name} -d {_fish_quoted(text)}"
    for option in command.options:
        names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
        value = f" -x{_fish_values(option.value)}" if option.value is not None else ""
        value = " -r -F" if option.value is not None and option.value.is_file else value
        yield f"{here} {names}{value} -d {_fish_quoted(option.help)}"
    for number, place in enumerate(command.places):
        there = here if place.repeats else at(number)
        if place.is_file:
            yield f"{there} -F"
        elif values := _fish_values(place):
            yield f"{there}{values}"


def _fish_values(place: CompletedPlace) -> str:
    if place.choices:
        return f" -a {_fish_quoted(' '.join(place.choices))}"
    if place.names == "runs":
        return f" -a {_fish_quoted(f'latest ({_NAMES[place.names]})')}"
    return f" -a {_fish_quoted(f'({_NAMES[place.names]})')}" if place.names else ""


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
