"""Completion, manual page and examples, which follow from the parser, in the programs that read them."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actions.base.files import asset, documents, shipped_blueprints
from tests.support.answering import write_kubeconfig
from tests.support.missing import needs
from tests.support.program import Program
from tests.support.ptys import OnPty
from tui.cli.arguments import parse_arguments, parser, subcommands_of
from tui.cli.examples import EXAMPLES
from tui.cli.main import main
from tui.cli.manual import completion
from tui.cli.manual.page import command_line_page, manual_page


def _paths(command: argparse.ArgumentParser, words: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for name, below in subcommands_of(command).items():
        path = f"{words} {name}".strip()
        yield path, below
        yield from _paths(below, path)


def test_every_command_has_a_sentence_and_an_example() -> None:
    described = dict(_paths(parser()))
    assert described.keys() == EXAMPLES.keys()
    assert [path for path, command in described.items() if len((command.description or "").split()) < 3] == []
    helps = [command.format_help() for command in described.values()]
    assert all("example" in text for text in helps)
    assert [line for text in helps for line in text.splitlines() if re.fullmatch(r" {4}[a-z]+", line)] == []


def test_sentences_and_examples_fit_into_lines_of_80_columns() -> None:
    beside = 80 - 2 - 24
    assert [text for _, command in _paths(parser()) if len(text := command.description or "") > beside + 1] == []
    assert [line for lines in EXAMPLES.values() for line in lines if len(line) > 78] == []


def test_options_of_all_commands_are_described_by_the_help_of_all_alone() -> None:
    for command in (parser(), subcommands_of(parser())["nodes"]):
        shown = command.format_help()
        assert "--kubeconfig FILE" in shown
        assert ("default: $KUBECONFIG" in shown) == (command is parser())
    assert command_line_page().count("default: $KUBECONFIG") == manual_page(parser()).count("default: $KUBECONFIG") == 1


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


def test_the_page_of_the_command_line_is_current() -> None:
    page = documents() / "command-line.md"
    assert page.read_text(encoding="utf-8") == command_line_page(), "run: make reference"


@pytest.mark.parametrize(
    ("words", "file"),
    [("rbac", "rbac.yaml"), ("iam launch", "iam/launch.json")],
)
def test_a_text_is_printed_as_its_file_holds_it(words: str, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["print", *words.split()]) == 0
    assert capsys.readouterr().out == asset(file).read_text("utf-8")


def test_a_page_is_printed_as_it_is_into_a_pipe_and_with_its_form_to_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["docs", "alarms"]) == 0
    assert capsys.readouterr().out == (documents() / "alarms.md").read_text("utf-8")
    program = Program(tmp_path)
    with OnPty(program.argv("docs", "alarms"), {**program.environment, "PAGER": "cat"}) as shown:
        assert shown.wait_ended() == 0
        text = shown.text
    assert "Jobs that no run has made" in text
    assert "## Jobs" not in text


def test_pages_are_listed_and_a_mistyped_one_is_named_with_its_neighbours(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert {"first-launch", "script", "keys"} <= set(listed)
    assert main(["docs", "scrpt"]) == 2
    assert "script" in capsys.readouterr().err


CONTEXTS = ("arn:aws:eks:us-west-2:1:cluster/a", "$(touch ran)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A home with the program on PATH, the run one-1, a kubeconfig with two contexts, and a file."""
    program = tmp_path / "eksml-tui"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -c "from tui.cli import program; program()" "$@"\n')
    program.chmod(0o755)
    (tmp_path / "state" / "eksml-tui" / "runs" / "one-1").mkdir(parents=True)
    (tmp_path / "given.log").touch()
    config = json.loads(write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:9").read_text())
    config["contexts"] = [config["contexts"][0] | {"name": name} for name in CONTEXTS]
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    return tmp_path


def _environment(folder: Path) -> dict[str, str]:
    usual = dict(Program(folder).environment)
    return usual | {"PATH": f"{folder}:{usual['PATH']}"}


_ASKED = r"""
source <(eksml-tui completion bash)
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
_python_argcomplete eksml-tui
printf "%s\n" "${COMPREPLY[@]}"
"""


def _complete(line: str, folder: Path) -> list[str]:
    """Have a real bash complete a line."""
    argv = ["bash", "-c", _ASKED, "bash", line]
    told = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=folder, env=_environment(folder))
    return sorted(told.stdout.split())


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("supp", ["support"]),
        ("runs ta", ["takeover"]),
        ("--context runs no", ["nodes"]),
        ("nodes --outp", ["--output"]),
        ("nodes -o y", ["yaml"]),
        ("runs show o", ["one-1"]),
        ("runs show -o json la", ["latest"]),
        ("plan llama2", ["llama2-trn1-mpi", "llama2-trn1-ray"]),
        ("blueprints sh", ["show"]),
        ("blueprints show llama2", ["llama2-trn1-mpi", "llama2-trn1-ray"]),
        ("plan bionemo-esm1nv --preset reh", ["rehearsal"]),
        ("launch bionemo-esm1nv --preset ", ["rehearsal", "short"]),
        ("launch --preset re", ["rehearsal"]),
        ("--blueprints absent plan ", []),
        ("--kubeconfig kubeconfig --context a", ["arn:aws:eks:us-west-2:1:cluster/a"]),
        ("--kubeconfig kubeconfig nodes --context arn:aws:e", ["eks:us-west-2:1:cluster/a"]),  # behind bash's colon
        ("--kubeconfig absent nodes --context a", []),
        ("nodes --output=js", ["json", "jsonl"]),
        ("events --output=", ["csv", "json", "jsonl", "table", "wide", "yaml"]),
        ("plan efa-nccl-tests nodes=1 instance_t", ["instance_type="]),
        ("--theme=dark runs ta", ["takeover"]),
        ("read log gi", ["given.log"]),
        ("read -o csv log gi", ["given.log"]),
        ("read log sta", ["state/"]),
        ("read log state/eks", ["state/eksml-tui/"]),
        ("read log absent/", []),
        ("runs list la", []),
    ],
)
def test_bash_completes(line: str, found: list[str], folder: Path) -> None:
    assert _complete(f"eksml-tui {line}", folder) == found


def test_bash_expands_nothing_in_a_name(folder: Path) -> None:
    found = _complete("eksml-tui --kubeconfig kubeconfig --context $", folder)
    assert found == ["\\$\\(touch\\", "ran\\)"]
    assert not (folder / "ran").exists()


def test_the_blueprints_of_the_settings_file_are_completed(folder: Path) -> None:
    own = folder / "mine" / "own"
    shutil.copytree(shipped_blueprints() / "efa-nccl-tests", own)
    text = (own / "blueprint.yaml").read_text()
    (own / "blueprint.yaml").write_text(re.sub(r"^id: .*$", "id: own", text, flags=re.MULTILINE))
    (folder / "config" / "eksml-tui").mkdir(parents=True)
    (folder / "config" / "eksml-tui" / "config.yaml").write_text(f"blueprints: [{folder / 'mine'}]\n")
    assert _complete("eksml-tui plan o", folder) == ["own"]


LINES = [
    ("supp", "support"),
    ("runs sho", "show"),
    ("runs show o", "one-1"),
    ("--theme dark plan bio", "bionemo-esm1nv"),
    ("runs show -o json la", "latest"),
    ("nodes -o y", "yaml"),
    ("plan bionemo-esm1nv --preset reh", "rehearsal"),
    ("--kubeconfig kubeconfig nodes --context ar", "arn:aws:eks:us-west-2:1:cluster/a"),
    ("read log gi", "given.log"),
    ("read -o csv lo", "log"),
]
"""The beginning of a line, and how its last word goes on."""


@needs("fish")
def test_fish_completes(folder: Path) -> None:
    asked = "; ".join(f"complete -C 'eksml-tui {line}'; echo =" for line, _ in LINES)
    argv = ["fish", "--no-config", "-c", f"eksml-tui completion fish | source; {asked}"]
    told = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=folder, env=_environment(folder))
    found = [part.split("\t")[0].strip() for part in told.stdout.split("=\n")[:-1]]
    assert found == [word for _, word in LINES]


@needs("zsh")
def test_zsh_completes(folder: Path) -> None:
    (folder / ".zshrc").write_text(
        f"PS1='> '; cd {folder}; autoload -Uz compinit; compinit -u; source <(eksml-tui completion zsh)\n"
    )
    with OnPty(["zsh", "-i"], _environment(folder) | {"TERM": "xterm"}) as shell:
        shell.wait("> ", seconds=120)
        for line, word in LINES:
            shell.forget()
            shell.type(f"eksml-tui {line}".encode())
            shell.wait(f"eksml-tui {line}", seconds=120)
            shell.type(b"\t")
            before = line.rpartition(" ")[0]
            shell.wait(f"eksml-tui {before}{' ' * bool(before)}{word}", seconds=120)
            shell.type(b"\x15")  # ctrl+u


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


def test_a_cluster_that_does_not_answer_completes_nothing_and_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        file = write_kubeconfig(tmp_path / "kubeconfig", address)
        line = parser().parse_args(["--kubeconfig", str(file), "watch", "job/x"])
        monkeypatch.setattr(completion, "_CLUSTER_SECONDS", 0.01)
        assert completion._in_cluster(line, "JOB") == []
    refused = parser().parse_args(["--kubeconfig", str(tmp_path / "absent"), "watch", "job/x"])
    monkeypatch.setattr(completion, "_CLUSTER_SECONDS", 60.0)
    assert completion._in_cluster(refused, "JOB") == []
    assert capfd.readouterr() == ("", "")
