"""D14: bytes that are not UTF-8, or no keys at all, never end the console; a crash never ends it with 0."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.bare import ESCAPE, a_bare_console, ends_by_its_key, is_alive_and_well, one_bare_console
from tests.support.program import Program
from tests.support.ptys import OnPty

MEANT = b"q\x11\x03\x17"
"""Keys that end the console, or ask whether to, or split a pane until none has room for its name."""

GARBAGE = {
    "a Latin-1 terminal": b":caf\xe9\r",
    "a lone continuation": b"\x80\xbf\xfe\xff",
    "a sequence that is cut": b":\xe2\x82\r",
    "an overlong slash": b"\xc0\xaf\xe0\x80\xaf",
    "half a surrogate pair": b"\xed\xa0\x80\xed\xbf\xbf",
    "half a surrogate pair in kitty's words": b":\x1b[55296u\r",
    "a code point beyond all": b"\x1b[99999999999u\x1b[1114112;5u",
    "a key without a number": b"\x1b[:1u\x1b[:;:u",
    "no such sequence": b"\x1b[?999999999;9$y\x1b[;;;;;R\x1b[<9;9;9;9;9m\x1bP\x1b]52;c;!\x07",
    "a terminal of no size": b"\x1b[48;0;0;0;0t\x1b[<0;1;1M",
    "a terminal larger than all memory": b"\x1b[48;99999;99999;1;1t",
    "a mouse far away": b"\x1b[<0;99999999999;99999999999M\x1b[<35;88888;1m",
    "a paste of Latin-1": b":\x1b[200~caf\xe9 \xff\xfe\x1b[201~\r",
    "an end of a paste": b"\x1b[201~\x1b[201~",
}


@pytest.fixture(scope="module")
def the_console(shared_program: Program) -> Iterator[Callable[[], OnPty]]:
    """One for all garbage; a test whose garbage ends it leaves a new one to the next."""
    with one_bare_console(shared_program) as console:
        yield console


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=[name.replace(" ", "-") for name in GARBAGE])
def test_d14_garbage_on_stdin_does_not_end_the_console(the_console: Callable[[], OnPty], garbage: bytes) -> None:
    console = the_console()
    console.type(garbage)
    is_alive_and_well(console)


def test_d14_text_beside_garbage_is_taken(the_console: Callable[[], OnPty]) -> None:
    console = the_console()
    console.type(b":\xe9ev\xff\xc3ents\r")
    console.wait(r"\[8 ev")


SOONER_FLOODED = """
import tui.terminal.driver
tui.terminal.driver.FLOOD_SECONDS = 1.0
"""
"""A console that handles keys for five seconds, before it drops them, proves no more than one that does so for one."""


def test_d14_a_megabyte_of_random_bytes_leaves_a_console_that_takes_keys(program: Program) -> None:
    dice = random.Random(14)
    noise = bytes(byte for byte in dice.randbytes(1_000_000) if byte not in MEANT)
    (program.home / "sitecustomize.py").write_text(SOONER_FLOODED)
    places = [str(program.home), program.environment.get("PYTHONPATH", "")]
    with a_bare_console(program, environment={"PYTHONPATH": os.pathsep.join(filter(None, places))}) as console:
        console.type(noise, seconds=240)
        console.wait(r"Too many keys at once", seconds=120)
        deadline = time.monotonic() + 120
        console.type(ESCAPE * 3 + b"8")
        while not console.sees(r"\[8 ev", seconds=2):  # keys right behind a flood are dropped with it
            assert time.monotonic() < deadline, console.text[-2000:]
            console.type(ESCAPE * 3 + b"8")
        is_alive_and_well(console)
        ends_by_its_key(console)


def test_d14_a_huge_paste_is_cut_and_the_line_goes_on(program: Program) -> None:
    with a_bare_console(program) as console:
        console.type(b":\x1b[200~" + b"x" * 1_200_000 + b"\x1b[201~", seconds=240)
        console.wait(r"xxxxxxxxxx")
        console.type(ESCAPE)
        is_alive_and_well(console)
        ends_by_its_key(console)


def test_d14_a_paste_whose_end_is_lost_is_over_when_nothing_comes(program: Program) -> None:
    with a_bare_console(program) as console:
        console.type(b":")
        console.wait(r"command")
        console.forget()
        console.type(b"\x1b[200~open events")
        console.wait(r"open events")
        console.type(b"\r")
        console.wait(r"\[8 ev")
        ends_by_its_key(console)
