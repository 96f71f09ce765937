"""The real program in a real terminal of eighty columns: a whole life by keys, and what keys promise."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support.consoles import RUN, a_console, approve_each_plan, launch_the_rehearsal
from tests.support.program import Program
from tests.support.terminal import Terminal, needs_tmux

pytestmark = [pytest.mark.terminal, needs_tmux]

CLUSTER = "bionemo-on-eks"
CLOSING_ITS_TERMINAL = """
import os, signal
signal.signal(signal.SIGHUP, signal.SIG_IGN)
os.closerange(0, 3)
os._exit(3)
"""
"""Ends while tmux, which saw the terminal close, waits for libutempter: a third of such ends are lost to it."""


def test_a_whole_life_by_keys(shared_program: Program) -> None:
    with a_console(shared_program) as terminal:
        see_the_nodes_and_their_cost(terminal)
        launch_the_rehearsal(terminal)
        lose_the_runner_and_get_another(terminal, shared_program)
        approve_each_plan(terminal)
        watch_the_data_being_made(terminal)
        watch_the_training(terminal)
        see_the_end(terminal)
        list_and_export_the_results(terminal)
        tear_down_by_typing_the_name(terminal)
        terminal.press("q")
        assert terminal.wait_end() == 0


def see_the_nodes_and_their_cost(terminal: Terminal) -> None:
    terminal.wait(rf"111122223333 · {CLUSTER} · us-west-2 +\$0\.38/h")
    terminal.wait(r"m5\.xlarge .* 0\.192 ● Ready")
    terminal.wait(r"2 nodes")


def lose_the_runner_and_get_another(terminal: Terminal, program: Program) -> None:
    """The console starts a runner again that has died; `R` is for one that is stalled."""
    terminal.wait(r"press a to approve")
    terminal.wait(RUN)
    (folder,) = program.run_folders()
    killed = program.runner(folder)
    assert killed is not None
    os.kill(killed.pid, signal.SIGKILL)
    terminal.until(lambda: program.runner(folder) not in {None, killed}, "another runner")
    terminal.wait_gone(r"its runner has died")
    terminal.wait(r"press a to approve")


def list_and_export_the_results(terminal: Terminal) -> None:
    terminal.press("o")
    terminal.wait(r"─ results of bionemo-esm1nv-")
    terminal.wait(r"tfevents")
    terminal.press("G")
    terminal.wait(r"files, .* in /fsx/")
    terminal.press("q", ":")
    terminal.type("export s3://bucket/prefix")
    terminal.press("Enter")
    terminal.wait(r"copies them to s3://bucket/prefix\.")
    terminal.press("y")
    terminal.wait(r"Job default/eksml-export-")
    terminal.wait(r"The results are in s3://bucket/prefix")


def watch_the_data_being_made(terminal: Terminal) -> None:
    terminal.wait(r"▶ UniRef50 ", seconds=120)
    terminal.press("5")
    terminal.wait(rf"─ log of {RUN}/(data|train) ")
    terminal.wait(r"following")
    terminal.press("4")
    terminal.wait(r"✔ UniRef50 ", seconds=120)


def watch_the_training(terminal: Terminal) -> None:
    terminal.wait(r"▶ Pre-training .* 8 of 8", seconds=120)
    terminal.press("6")
    terminal.wait(r"8 GPUs, [1-9]\d*% busy on average")
    terminal.press("5")
    terminal.wait(rf"─ log of {RUN}/train ")
    terminal.wait(r"(● following|at the end) +[\d,]+ lines")
    terminal.press("1")
    terminal.wait(r"g5\.12xlarge .*● Ready")
    terminal.press("7")
    terminal.wait(rf" of {RUN}/train ")
    terminal.wait(r"[\u2801-\u28ff]")


def see_the_end(terminal: Terminal) -> None:
    terminal.press("4")
    terminal.wait(r"✔ Pre-training ", seconds=120)
    terminal.wait(r"^│ succeeded ")


def tear_down_by_typing_the_name(terminal: Terminal) -> None:
    terminal.press("T")
    terminal.wait(rf"─ Tear down {RUN} ─")
    terminal.type("bionemo")
    terminal.press("Enter")
    terminal.wait(r"That is not the cluster's name")
    terminal.type("-on-eks")
    terminal.press("Enter")
    terminal.wait(r"tearing down")
    terminal.wait(r"^│ torn down, data kept ", seconds=90)
    terminal.wait(r"goes on for what is kept on purpose")


def test_keys_that_come_faster_than_screens_go_where_they_were_meant(shared_program: Program) -> None:
    with a_console(shared_program) as terminal:
        terminal.press_at_once(":", *"launch bionemo-esm1nv", "Enter", "Down", "Right")
        terminal.wait(r"Use this cluster +yes ")
        terminal.press_at_once("Escape")
        terminal.wait(r"\[1 nodes\]")
        terminal.press_at_once("2", "/", *"coredns", "Enter", "d")
        terminal.wait(r"─ Pod kube-system/coredns-\S+ ─")


def test_what_is_pasted_presses_no_key(shared_program: Program) -> None:
    with a_console(shared_program) as terminal:
        terminal.wait(r"\[1 nodes\]")
        for pasted in ("\x1b[31mhello\nq\nok\n", "\x1b\x1b\x03q\rT", "x\x1b[201~q\rT\r"):
            terminal.paste(pasted)
        terminal.press(":")
        terminal.wait(r"^ ?: command")
        terminal.paste("\x1b[31mquit\x1b[0m\nq\n")
        terminal.wait(r"^ ?: ?quit ")
        terminal.press("Escape")
        terminal.wait(r"\[1 nodes\]")
        assert not terminal.is_dead()


def test_every_pod_of_the_cluster_is_described_read_followed_and_entered(shared_program: Program) -> None:
    with a_console(shared_program, size=(200, 50)) as terminal:
        terminal.press("2")
        terminal.wait(r"kube-system coredns-")
        terminal.press("/")
        terminal.type("coredns")
        terminal.press("Enter")
        terminal.wait_gone(r"aws-node-")
        terminal.press("d")
        terminal.wait(r"─ Pod kube-system/coredns-\S+ ─")
        terminal.wait(r"^│ Conditions")
        terminal.press("q", "y")
        terminal.wait(r"─ Pod kube-system/coredns-\S+, YAML ─")
        terminal.wait(r"^│ apiVersion: v1")
        terminal.press("q", "l")
        terminal.wait(r"─ log of kube-system/coredns-\S+")
        terminal.press("2", "s")
        terminal.wait(r"─ kube-system/coredns-\S+ coredns ─")
        terminal.wait(r"[$#] +│$")
        terminal.type("hostname")
        terminal.press("Enter")
        terminal.wait(r"^│coredns-\S+ +│")
        terminal.type("exit")
        terminal.press("Enter")
        terminal.wait(r"\[2 pods\]")


def child_of(pid: int) -> int:
    """The only child of a process."""
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_terminal_as_it_was(shared_program: Program, number: signal.Signals) -> None:
    under_a_shell = ("sh", "-c", '"$@"; echo "ended with $?"; exec cat', "sh")
    with a_console(shared_program, under=under_a_shell) as terminal:
        assert terminal.flags("alternate_on") == ["1"]
        os.kill(child_of(terminal.pid()), number)
        terminal.wait(rf"^ended with {128 + number}$")
        assert terminal.flags("alternate_on", "cursor_flag", "mouse_any_flag") == ["0", "1", "0"]


@pytest.mark.parametrize("_", range(8))
def test_an_end_that_tmux_has_missed_is_seen(tmp_path: Path, _: int) -> None:
    argv = [sys.executable, "-I", "-S", "-c", CLOSING_ITS_TERMINAL]
    terminal = Terminal(argv, environment={}, size=(80, 24), directory=tmp_path)
    try:
        assert terminal.wait_end(seconds=30) == 3
    finally:
        terminal.close()


EDITOR = """#!/bin/sh
printf 'EDITING %s\\n' "$(grep -c 'edited: ' "$1")"
while read answer; do
  case $answer in
    change) exec sed -i 's/^  labels:/  labels:\\n    edited: "yes"/' "$1" ;;
    *) echo "READ $answer" ;;
  esac
done
"""


def test_an_editor_has_the_terminal_alone(shared_program: Program, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text(EDITOR)
    editor.chmod(0o700)
    with a_console(shared_program, under=("env", f"EDITOR={editor}")) as terminal:
        terminal.wait(r"2 nodes")
        terminal.press("e")
        terminal.wait(r"^EDITING 0$")
        terminal.resize(100, 30)
        terminal.type("q:z")
        terminal.press("Enter")
        terminal.wait(r"^READ q:z$")
        assert terminal.text().split() == ["EDITING", "0", "q:z", "READ", "q:z"]
        terminal.type("change")
        terminal.press("Enter")
        terminal.wait(r"▌ +(is )?changed\.")
        terminal.wait(r"^╭─ nodes ─{85,}╮$")
        terminal.wait(r"2 nodes")
        assert terminal.flags("alternate_on") == ["1"]
        terminal.press("e")
        terminal.wait(r"^EDITING 1$")
        os.kill(terminal.pid(), signal.SIGINT)  # as Ctrl+C sends it to all programs of a terminal
        terminal.press("C-c")
        terminal.wait(r"▌ .*editor ended with")
        terminal.press("e")
        terminal.wait(r"^EDITING 1$")
        os.kill(terminal.pid(), signal.SIGTERM)
        assert terminal.wait_end() == 128 + signal.SIGTERM


PLUGIN = """
plugins:
  look:
    shortCut: Shift-A
    description: look
    scopes: [no]
    command: sh
    args: [-c, 'echo LOOKING at $NAME of $RESOURCE_NAME; read answer; exit $answer']
"""


def test_a_plugin_has_the_terminal_until_it_ends(shared_program: Program) -> None:
    folder = Path(shared_program.environment["XDG_CONFIG_HOME"]) / "eksml-tui"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "plugins.yaml"
    file.write_text(PLUGIN)
    try:
        with a_console(shared_program) as terminal:
            terminal.wait(r"A look")
            terminal.press("A")
            terminal.wait(r"^LOOKING at ip-[\w.-]+ of nodes$")
            terminal.type("3")
            terminal.press("Enter")
            terminal.wait(r"▌ .*sh ended with")
            terminal.wait(r"2 nodes")
            assert terminal.flags("alternate_on") == ["1"]
    finally:
        file.unlink()
