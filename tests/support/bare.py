"""A console without a cluster, on a terminal of the test's own: for what the terminal does to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from tests.support.program import Program
from tests.support.ptys import RESTORED, OnPty


@contextmanager
def a_bare_console(
    program: Program, *arguments: str, environment: Mapping[str, str] | None = None, size: tuple[int, int] = (100, 30)
) -> Iterator[OnPty]:
    """The console once its frame is there; there is no kubeconfig, which it says."""
    variables = {**program.environment, **(environment or {})}
    with OnPty(program.argv(*arguments), variables, size=size) as console:
        console.wait(r"\[H home\]")
        console.wait(r"refused")
        yield console


@contextmanager
def one_bare_console(program: Program) -> Iterator[Callable[[], OnPty]]:
    """A function that returns one console again and again, or a new one if that has ended; `q` ends the last."""
    consoles: list[OnPty] = []
    with ExitStack() as stack:

        def console() -> OnPty:
            if not consoles or consoles[-1].has_ended():
                consoles.append(stack.enter_context(a_bare_console(program)))
            consoles[-1].forget()
            return consoles[-1]

        yield console
        ends_by_its_key(console())


ESCAPE = b"\x1b[27u"
"""The key as terminals with kitty's protocol send it: nothing that follows makes another key of it."""


def is_alive_and_well(console: OnPty) -> None:
    """It takes keys and shows what they ask for; nothing of Python is on its screen."""
    console.type(ESCAPE)
    console.forget()
    console.type(b"8")
    console.wait(r"\[8 ev")
    console.forget()
    console.type(b"1")
    console.wait(r"\[1 nodes\]")
    assert "Traceback" not in console.text


def ends_by_its_key(console: OnPty) -> None:
    """`q` ends it with 0, and the terminal is as it was."""
    console.type(b"q")
    assert console.wait_ended() == 0
    assert all(sequence in console.raw for sequence in RESTORED)
    assert console.is_echoing()
