"""The console in a terminal, and the steps that several tests take in it by keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.support.program import Program
from tests.support.terminal import Terminal
from tui.screens.kept_panes import LAST_FILE

PLANNED = ("Network", "Cluster", "File system")
"""Titles of the stages whose Terraform plan has to be approved."""

HOME = r"\d+ nodes, (all|\d+ not) ready"
NODES = r"ip-100-\S+ +m5\.xlarge .*Ready"
SPEED = "6"
"""Of the embedded cluster: the training takes some twenty seconds, in which a busy machine still shows every pane."""

RUN = r"bionemo-esm1nv-\d{4}-\w+"


@contextmanager
def a_console(
    program: Program, *arguments: str, size: tuple[int, int] = (80, 24), under: Sequence[str] = ()
) -> Iterator[Terminal]:
    """The console on the embedded cluster, once its nodes are on screen, or the run that `--run` asks for.

    Args:
        program: Whose state.
        arguments: Beyond `--demo`.
        size: Columns and rows.
        under: A command that runs the console as its arguments.
    """
    (program.state / LAST_FILE).unlink(missing_ok=True)  # of the session before, which may have left other panes
    terminal = Terminal(
        [*under, *program.argv("--demo", "--speed", SPEED, *arguments)],
        environment=program.environment,
        size=size,
        directory=program.home,
    )
    try:
        if "--run" in arguments:
            terminal.wait(rf"─ {RUN} (?:─|·)", seconds=120)
        else:
            terminal.wait(HOME, seconds=120)
            terminal.press("1")
            terminal.wait(NODES)
            terminal.wait(r"─ live ─╯")  # the kept picture of a session before is there first, and refuses changes
        yield terminal
    finally:
        terminal.close()


def launch_the_rehearsal(terminal: Terminal) -> None:
    """From the blueprints through form, plan and question to the run."""
    terminal.press("3")
    terminal.wait(r"bionemo-esm1nv +8 A10G +≥ \$\d+\.\d\d/h +\$\d+\.\d\d–\d+\.\d\d \+ traffic")
    terminal.press("Enter")
    terminal.wait(r"Preset +rehearsal ")
    terminal.wait(r"Cluster name +bionemo-on-eks")
    terminal.wait(r"Total: .*, \$\d+\.\d\d–\d+\.\d\d \+ traffic, peak ≥ \$\d+\.\d\d/h")
    terminal.press("Enter")
    terminal.wait(r"─ Launch bionemo-esm1nv\? ─")
    terminal.wait(r"\$\d+\.\d\d/h at the peak, with .*g5\.12xlarge")
    terminal.wait(r"n  enter  no")
    terminal.press("y")
    terminal.wait(rf"─ {RUN} (?:─|·)")


def approve_each_plan(terminal: Terminal) -> None:
    """Look at what Terraform would do, and say yes, stage by stage."""
    for title in PLANNED:
        terminal.wait(rf"◆ {title} .*press a to approve")
        terminal.press("a")
        terminal.wait(rf"─ Approve the plan of {title}\? ─")
        terminal.wait(r"\d+ to add, 0 to change, 0 to destroy")
        terminal.press("y")
        terminal.wait(rf"✔ {title} ")
