"""`eksml-tui completion SHELL`: the completion of the command line, generated from its parser.

Commands, options and fixed values are in the script; names of blueprints, presets, contexts and runs are printed by the
program, and files are left to the shell. Nothing is looked up in a cluster: a completion has to answer at once.
"""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from actions.base.files import expanded
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
    """The words of one place: fixed words, names of a kind (a key of `_NAMES`), or files."""

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
    """Print the script for a shell, or the names that it looks up."""
    if options.shell in _LOOKUPS:
        sys.stdout.writelines(f"{name}\n" for name in _LOOKUPS[options.shell](options.words))
        return 0
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
    if action.dest in _NAMED_OPTIONS:
        return CompletedPlace(names=_NAMED_OPTIONS[action.dest])
    if metavar == "BLUEPRINT" or words == ("blueprints",):
        return CompletedPlace(names="blueprints", repeats=repeats)
    return CompletedPlace(is_file=metavar in _FILES, repeats=repeats)


def _sentence(text: str) -> str:
    return text % {"prog": _PROGRAM} if "%(" in text else text


def presets_of(words: Sequence[str]) -> list[str]:
    """Return the presets of the blueprint that a line names; without one, those of all blueprints."""
    from actions.blueprint.catalogue import Catalogue

    blueprints = Catalogue.usual(_values(words, "--blueprints")).list()
    named = [each for each in blueprints if each.id in words] or blueprints
    return list(dict.fromkeys(name for each in named for name in each.presets))


def contexts_on(words: Sequence[str]) -> list[str]:
    """Return the contexts of the kubeconfig that a line names, else of the usual one; none if there is none."""
    from actions.cluster.auth.kubeconfig import ClusterTarget, NoKubeconfigError, contexts_of

    files = _values(words, "--kubeconfig")
    try:
        return [name for name, _ in contexts_of(ClusterTarget(files[-1] if files else None))]
    except NoKubeconfigError:
        return []


def _values(words: Sequence[str], option: str) -> list[Path]:
    """Return the files that a line gives with an option."""
    behind = [word for before, word in pairwise(words) if before == option and word]
    joined = [word.partition("=")[2] for word in words if word.startswith(f"{option}=")]
    return [expanded(word) for word in (*behind, *joined)]


_LOOKUPS = {"presets": presets_of, "contexts": contexts_on}
"""Names that depend on the line, and the functions that find them."""
_NAMED_OPTIONS = {"preset": "presets", "context": "contexts"}
"""Options whose values are such names."""
_IDS = '2>/dev/null | sed -n \'s/^ *"id": "\\([^"]*\\)".*$/\\1/p\''
_NAMES = {
    "runs": f"echo latest; {_PROGRAM} runs list -o json {_IDS}",
    "blueprints": f"{_PROGRAM} blueprints -o json {_IDS}",
    **{kind: f"{_PROGRAM} completion {kind} -- LINE 2>/dev/null" for kind in _LOOKUPS},
}
"""A command that prints the names of a kind, one a line. LINE stands for the words of the command line."""


def _asked(kind: str, line: str) -> str:
    """Return the command of a kind of names, with a shell's own expression for the words of the line."""
    return _NAMES[kind].replace("LINE", line)


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
    names = "\n".join(f"        {kind}) {_asked(kind, _BASH_LINE)} ;;" for kind in _NAMES)
    return _BASH.format(paths=paths, valued=valued, cases=cases, names=names)


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


_BASH_LINE = '"${words[@]:1}"'
_BASH = """\
# bash completion of eksml-tui, made by: eksml-tui completion bash
_eksml_tui_words() {{ COMPREPLY=($(compgen -W "$1" -- "$cur")); }}
_eksml_tui_files() {{ compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur")); }}
_eksml_tui_print() {{
    case "$1" in
{names}
    esac
}}
_eksml_tui_names() {{ # names are data: nothing in them is expanded
    local name
    while IFS= read -r name; do
        [[ -n "$name" && "$name" == "$cur"* ]] && COMPREPLY+=("$(printf %q "$name")")
    done < <(_eksml_tui_print "$1")
}}
_eksml_tui_valued() {{
    case "$1" in
{valued}
    esac
}}
_eksml_tui_reply() {{
    case "$path" in
{cases}
    esac
}}
_eksml_tui() {{
    local cur prev path="" place=0 word skip="" glue=0 index
    local -a paths=({paths})
    local -a words=()
    for ((index = 0; index <= COMP_CWORD; index++)); do # bash splits words at colons, and contexts may be ARNs
        word="${{COMP_WORDS[index]}}"
        if [[ "$word" == "=" && "${{words[${{#words[@]}}-1]}}" == --* ]]; then # the value in --output=json is a word
            [[ $index == "$COMP_CWORD" ]] && words+=("")
            continue
        fi
        if [[ ${{#words[@]}} -gt 0 && ( "$word" == :* || "$glue" == 1 ) ]]; then
            words[${{#words[@]}}-1]+="$word"
        else
            words+=("$word")
        fi
        [[ "$word" == *: ]] && glue=1 || glue=0
    done
    local at=$((${{#words[@]}} - 1))
    cur="${{words[at]}}"
    prev="${{words[at > 0 ? at - 1 : 0]}}"
    COMPREPLY=()
    for ((index = 1; index < at; index++)); do
        word="${{words[index]}}"
        if [[ -n "$skip" ]]; then skip=""; continue; fi
        if [[ "$word" == -* && "$word" != "-" ]]; then
            [[ " $(_eksml_tui_valued "$path") " == *" $word "* ]] && skip=1
            continue
        fi
        local longer="${{path:+$path }}$word" known="" each
        for each in "${{paths[@]}}"; do [[ "$each" == "$longer" ]] && known=1; done
        if [[ -n "$known" && $place == 0 ]]; then path="$longer"; else place=$((place + 1)); fi
    done
    _eksml_tui_reply
    if [[ "$cur" == *:* ]]; then # only what is behind the last colon is replaced
        local head="${{cur%"${{cur##*:}}"}}"
        COMPREPLY=("${{COMPREPLY[@]#"$head"}}")
    fi
}}
complete -F _eksml_tui eksml-tui
"""


_ZSH_LINE = "${(Q)${(z)BUFFER}[2,-1]}"


def zsh_script(commands: Sequence[CompletedCommand]) -> str:
    """Return the completion for zsh: a function for each command."""
    functions = "\n".join(_zsh_function(command) for command in commands)
    names = "\n".join(
        f'_eksml_tui_names_of_{kind}() {{ compadd -- ${{(f)"$({_asked(kind, _ZSH_LINE)})"}} }}' for kind in _NAMES
    )
    return (
        "#compdef eksml-tui\n# zsh completion of eksml-tui, made by: eksml-tui completion zsh\n"
        f"{names}\n"
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


_FISH_LINE = "(commandline -op)[2..]"


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
    return f" -a {_fish_quoted(f'({_asked(place.names, _FISH_LINE)})')}" if place.names else ""


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
