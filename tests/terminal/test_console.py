"""The real program in a real terminal of eighty columns: a whole life by keys, and what keys promise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.program import Program
from tests.support.terminal import Terminal, needs_tmux

pytestmark = [pytest.mark.terminal, needs_tmux]

CLUSTER = "bionemo-on-eks"
PLANNED = ("Network", "Cluster", "File system")
"""Titles of the stages whose Terraform plan has to be approved."""


@contextmanager
def a_console(program: Program, *arguments: str, size: tuple[int, int] = (80, 24)) -> Iterator[Terminal]:
    """The console in a terminal, its cluster's two nodes on screen."""
    terminal = Terminal(
        program.argv("--demo", "--speed", "20", *arguments),
        environment=program.environment,
        size=size,
        directory=program.home,
    )
    try:
        terminal.wait(r"ip-100-\S+ +m5\.xlarge .*Ready", seconds=40)
        yield terminal
    finally:
        terminal.close()


def test_a_whole_life_by_keys(shared_program: Program) -> None:
    with a_console(shared_program) as terminal:
        see_the_nodes_and_their_cost(terminal)
        launch_the_rehearsal_from_the_form(terminal)
        approve_each_plan(terminal)
        watch_the_data_being_made(terminal)
        watch_the_training(terminal)
        see_the_end(terminal)
        tear_down_by_typing_the_name(terminal)
        terminal.press("q")
        terminal.until(terminal.is_dead, "end of the program")


def see_the_nodes_and_their_cost(terminal: Terminal) -> None:
    terminal.wait(rf"111122223333 · {CLUSTER} · us-west-2 +\$0\.38/h")
    terminal.wait(r"m5\.xlarge .* 0\.192 ● Ready")
    terminal.wait(r"2 nodes")


def launch_the_rehearsal_from_the_form(terminal: Terminal) -> None:
    terminal.press("3")
    terminal.wait(r"bionemo-esm1nv +BioNeMo ESM-1nv pre-training +10 ")
    terminal.press("Enter")
    terminal.wait(r"Preset +‹ rehearsal ›")
    terminal.wait(r"Cluster name +bionemo-on-eks")
    terminal.wait(r"All of it: .*, \$\d+\.\d\d…\$\d+\.\d\d, at most \$\d+\.\d\d/h")
    terminal.press("Enter")
    terminal.wait(r"─ Launch bionemo-esm1nv\? ─")
    terminal.wait(r"the cost is simulated")
    terminal.press("G")
    terminal.wait(r"Pre-training +\S+ +\$\d+\.\d\d +\$\d+\.\d\d")
    terminal.press("y")
    terminal.wait(r"─ bionemo-esm1nv-\d{4}-\w+ ─")


def approve_each_plan(terminal: Terminal) -> None:
    for title in PLANNED:
        terminal.wait(rf"◆ {title} .*press a to approve")
        terminal.press("a")
        terminal.wait(rf"─ Approve the plan of {title}\? ─")
        terminal.wait(r"\d+ to add, 0 to change, 0 to destroy")
        terminal.press("y")
        terminal.wait(rf"✔ {title} ")


def watch_the_data_being_made(terminal: Terminal) -> None:
    terminal.wait(r"▶ UniRef50 ", seconds=60)
    terminal.press("5")
    terminal.wait(r"─ log of bionemo-esm1nv-\d{4}-\w+/(data|train) ─")
    terminal.wait(r"following")
    terminal.press("4")
    terminal.wait(r"✔ UniRef50 ", seconds=60)


def watch_the_training(terminal: Terminal) -> None:
    terminal.wait(r"▶ Pre-training .* 8 of 8", seconds=60)
    terminal.press("5")
    terminal.wait(r"─ log of bionemo-esm1nv-\d{4}-\w+/train ─")
    terminal.wait(r"● following +[\d,]+ lines")
    terminal.press("6")
    terminal.wait(r"8 GPUs, [1-9]\d*% busy on average")
    terminal.press("1")
    terminal.wait(r"g5\.12xlarge .*● Ready")
    terminal.press("7")
    terminal.wait(r"─ curves of train ─")
    terminal.wait(r"[\u2801-\u28ff]")


def see_the_end(terminal: Terminal) -> None:
    terminal.press("4")
    terminal.wait(r"✔ Pre-training ", seconds=120)
    terminal.wait(r"^│ succeeded ")


def tear_down_by_typing_the_name(terminal: Terminal) -> None:
    terminal.press("T")
    terminal.wait(r"─ Tear down bionemo-esm1nv-\d{4}-\w+ ─")
    terminal.type("bionemo")
    terminal.press("Enter")
    terminal.wait(r"That is not the cluster's name")
    terminal.type("-on-eks")
    terminal.press("Enter")
    terminal.wait(r"tearing down")
    terminal.wait(r"^│ torn down ", seconds=90)
    terminal.wait(r"The audit found nothing left")
