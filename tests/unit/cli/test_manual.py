"""Completion, manual page and examples, which follow from the parser, in the programs that read them."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from tests.support.answering import write_kubeconfig
from tests.support.missing import needs
from tests.support.ptys import OnPty
from tui.cli.arguments import parse_arguments, parser, subcommands_of
from tui.cli.examples import EXAMPLES
from tui.cli.main import main
from tui.cli.manual.completion import bash_script, completed, fish_script, zsh_script
from tui.cli.manual.page import manual_page

COMMANDS = list(completed(parser()))
LISTING = """
case "$*" in
    "completion presets -- "*one-1*) printf 'rehearsal\\nreal\\n' ;;
    "completion contexts -- "*config*) printf 'arn:aws:eks:us-west-2:1:cluster/a\\n$(touch ran)\\n' ;;
    completion*) ;;
    *) printf '  "id": "%s",\\n' one-1 two-2 ;;
esac
"""


def _paths(command: argparse.ArgumentParser, words: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for name, below in subcommands_of(command).items():
        path = f"{words} {name}".strip()
        yield path, below
        yield from _paths(below, path)


def test_every_command_has_a_sentence_and_an_example() -> None:
    described = dict(_paths(parser()))
    assert described.keys() == EXAMPLES.keys()
    assert [path for path, command in described.items() if len((command.description or "").split()) < 3] == []
    assert all("example" in command.format_help() for command in described.values())


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_every_example_can_be_typed(line: str) -> None:
    line = re.split(r"\s{2,}", line)[0].removeprefix("source <(").removesuffix(")")
    (command,) = [part for part in line.split("|") if "eksml-tui" in part.split()[:1]] or [line.split("|")[-1]]
    words = shlex.split(re.split(r"\s>\s", command)[0])
    assert words[0] == "eksml-tui"
    assert parse_arguments(words[1:]).command == words[1]


def test_each_help_text_is_about_what_it_stands_beside() -> None:
    for path, command in _paths(parser()):
        missing = [action.dest for action in command._actions if not action.help and action.dest != "verb"]
        assert missing == [], path


def _program_that_lists(folder: Path) -> None:
    """Write a program that prints two ids, presets of the blueprint one-1 and two contexts of the file `config`."""
    program = folder / "eksml-tui"
    program.write_text(f"#!/bin/sh\n{LISTING}")
    program.chmod(0o755)


def _complete(words: list[str], folder: Path) -> list[str]:
    """Have a real bash complete the last of these words."""
    script = folder / "completion.bash"
    script.write_text(bash_script(COMMANDS))
    _program_that_lists(folder)
    quoted = " ".join(map(shlex.quote, words))
    lines = f"PATH={folder}:$PATH; source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _eksml_tui"
    argv = ["bash", "-c", f'{lines}; printf "%s\\n" "${{COMPREPLY[@]}}"']
    return subprocess.run(argv, check=True, capture_output=True, text=True, cwd=folder).stdout.split()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["eksml-tui", "appr"], ["approve"]),
        (["eksml-tui", "runs", "ta"], ["takeover"]),
        (["eksml-tui", "--context", "runs", "no"], ["nodes"]),
        (["eksml-tui", "nodes", "--outp"], ["--output"]),
        (["eksml-tui", "nodes", "-o", "y"], ["yaml"]),
        (["eksml-tui", "runs", "show", "o"], ["one-1"]),
        (["eksml-tui", "runs", "show", "-o", "json", "la"], ["latest"]),
        (["eksml-tui", "plan", ""], ["one-1", "two-2"]),
        (["eksml-tui", "plan", "one-1", "--preset", "reh"], ["rehearsal"]),
        (["eksml-tui", "launch", "one-1", "--preset", ""], ["rehearsal", "real"]),
        (["eksml-tui", "--kubeconfig", "config", "--context", "a"], ["arn:aws:eks:us-west-2:1:cluster/a"]),
        (
            ["eksml-tui", "--kubeconfig", "config", "nodes", "--context", "arn", ":", "aws", ":e"],
            ["eks:us-west-2:1:cluster/a"],
        ),
        (["eksml-tui", "nodes", "--output", "=", "js"], ["json"]),
        (["eksml-tui", "nodes", "--output", "="], ["table", "wide", "json", "yaml", "csv"]),
        (["eksml-tui", "plan", "one-1", "--preset", "=", "reh"], ["rehearsal"]),
        (["eksml-tui", "--theme", "=", "dark", "runs", "ta"], ["takeover"]),
        (["eksml-tui", "read", "log", "gi"], ["given.log"]),
        (["eksml-tui", "read", "-o", "csv", "log", "gi"], ["given.log"]),
    ],
)
def test_bash_completes(words: list[str], found: list[str], tmp_path: Path) -> None:
    (tmp_path / "given.log").touch()
    assert _complete(words, tmp_path) == found


def test_bash_expands_nothing_in_a_name(tmp_path: Path) -> None:
    found = _complete(["eksml-tui", "--kubeconfig", "config", "--context", "$"], tmp_path)
    assert found == ["\\$\\(touch\\", "ran\\)"]
    assert not (tmp_path / "ran").exists()


def test_presets_are_those_of_the_blueprint_on_the_line_and_contexts_those_of_its_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def printed(*words: str) -> list[str]:
        assert main(["completion", *words]) == 0
        return capsys.readouterr().out.split()

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    own = [*load_blueprint(shipped_blueprints() / "bionemo-esm1nv").presets]
    assert printed("presets", "--", "launch", "bionemo-esm1nv", "--preset", "") == own
    assert set(own) <= set(printed("presets", "--", "plan", "--preset", ""))
    assert printed("contexts", "--", "nodes", "--context", "") == []
    file = write_kubeconfig(tmp_path / "config", "http://127.0.0.1:9")
    assert printed("contexts", "--", "--kubeconfig", str(file), "--context", "") == ["here"]


@pytest.mark.parametrize(("shell", "make"), [("zsh", zsh_script), ("fish", fish_script)])
def test_other_shells_have_every_command_and_option(shell: str, make: object) -> None:
    script = zsh_script(COMMANDS) if make is zsh_script else fish_script(COMMANDS)
    for command in COMMANDS:
        for option in command.options:
            assert all((name if shell == "zsh" else name.lstrip("-")) in script for name in option.names)
    if shutil.which(shell):
        check = [shell, "-n"] if shell == "zsh" else [shell, "--no-execute"]
        subprocess.run([*check, "/dev/stdin"], input=script, check=True, text=True)


LINES = [
    ("appr", ["approve"]),
    ("runs sho", ["show"]),
    ("runs show o", ["one-1"]),
    ("--theme dark plan tw", ["two-2"]),
    ("runs show -o json la", ["latest"]),
    ("nodes -o y", ["yaml"]),
    ("plan one-1 --preset reh", ["rehearsal"]),
    ("--kubeconfig config nodes --context ar", ["arn:aws:eks:us-west-2:1:cluster/a"]),
    ("read log gi", ["given.log"]),
    ("read -o csv lo", ["log"]),
]
"""The beginning of a line, and how its last word can go on."""


@needs("fish")
def test_fish_completes(tmp_path: Path) -> None:
    _program_that_lists(tmp_path)
    (tmp_path / "given.log").touch()
    (tmp_path / "e.fish").write_text(fish_script(COMMANDS))
    asked = "; ".join(f"complete -C 'eksml-tui {line}'; echo =" for line, _ in [*LINES, ("plan --preset one ", [])])
    argv = ["fish", "--no-config", "-c", f"source e.fish; {asked}"]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    told = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=tmp_path, env=environment).stdout
    found = [[line.split("\t")[0] for line in part.split("\n") if line] for part in told.split("=\n")[:-1]]
    assert found == [*(words for _, words in LINES), ["one-1", "two-2"]]  # a value is not a place


@needs("zsh")
def test_zsh_completes(tmp_path: Path) -> None:
    _program_that_lists(tmp_path)
    (tmp_path / "given.log").touch()
    (tmp_path / "_eksml-tui").write_text(zsh_script(COMMANDS))
    (tmp_path / ".zshrc").write_text(
        f"PS1='> '; cd {tmp_path}; fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u\n"
    )
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "TERM": "xterm"}
    with OnPty(["zsh", "-i"], environment) as shell:
        shell.wait("> ", seconds=120)
        for line, words in LINES:
            shell.forget()
            shell.type(f"eksml-tui {line}".encode())
            shell.wait(f"eksml-tui {line}", seconds=120)
            shell.type(b"\t")
            before = line.rpartition(" ")[0]
            shell.wait(f"eksml-tui {before}{' ' * bool(before)}{words[0]}", seconds=120)
            shell.type(b"\x15")  # ctrl+u


def test_no_function_of_the_zsh_completion_replaces_another_one() -> None:
    names = re.findall(r"^(\w+)\(\)", zsh_script(COMMANDS), flags=re.MULTILINE)
    assert len(names) == len(set(names)) > 50


def test_the_manual_page_has_every_command() -> None:
    page = manual_page(parser())
    for path, _ in _paths(parser()):
        assert f'.SS "{path.replace("-", chr(92) + "-")}' in page


@needs("groff")
def test_groff_reads_the_manual_page_without_a_warning() -> None:
    argv = ["groff", "-man", "-ww", "-Tutf8"]
    read = subprocess.run(argv, input=manual_page(parser()), capture_output=True, text=True, check=True)
    assert read.stderr == ""
    assert "eksml-tui" in read.stdout
