"""F1 and F6: a line that drops; terminals that are small, change, are suspended, speak no UTF-8, or are none."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.support.bare import a_bare_console, ends_by_its_key, is_alive_and_well, one_bare_console
from tests.support.program import Program
from tests.support.ptys import RESTORED, OnPty

ENTERED = b"\x1b[?1049h"
SCRIPT = "eksml-script: 1\nsteps:\n  - open: events\n"


@pytest.mark.parametrize("name", ["dumb", "", None, "unknown"])
def test_f6_a_terminal_that_cannot_place_text_is_refused_in_one_sentence(program: Program, name: str | None) -> None:
    variables = {key: value for key, value in program.environment.items() if key != "TERM"}
    with OnPty(program.argv(), variables | ({} if name is None else {"TERM": name})) as console:
        assert console.wait_ended() == 2
        (line,) = console.text.split("\r\n")[:-1]
        assert line.startswith("eksml-tui: The console needs a terminal that can position text, and TERM is ")
        assert ENTERED not in console.raw


def test_f6_a_script_that_is_to_be_seen_needs_one_too_and_a_log_does_not(program: Program) -> None:
    (program.home / "script.yaml").write_text(SCRIPT)
    variables = {**program.environment, "TERM": "dumb"}
    with OnPty(program.argv("--script", str(program.home / "script.yaml"), "--visible"), variables) as console:
        assert console.wait_ended() == 2
        assert "TERM is “dumb”" in console.text
    with OnPty(program.argv("watch", "job/none"), variables) as console:
        assert console.wait_ended() == 1
        assert "no kubeconfig" in console.text
        assert ENTERED not in console.raw


def test_f6_without_a_terminal_the_console_says_so(program: Program) -> None:
    done = program.run()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "eksml-tui: The console needs a terminal. Play a script with --script FILE instead.\n"


@pytest.mark.parametrize("name", ["dumb", None])
def test_f6_scripts_and_verbs_need_no_terminal(program: Program, name: str | None) -> None:
    (program.home / "script.yaml").write_text(SCRIPT)
    variables = {key: value for key, value in program.environment.items() if key != "TERM"}
    variables |= {} if name is None else {"TERM": name}
    for arguments in (("--script", "script.yaml", "--artifacts", "."), ("blueprints",), ("--version",)):
        done = subprocess.run(
            ["setsid", "--wait", *program.argv(*arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=variables,
            cwd=program.home,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "\x1b" not in done.stdout


@pytest.mark.parametrize("locale", ["C", "de_DE.ISO-8859-1"])
def test_f6_a_locale_without_utf_8_gets_ascii(program: Program, locale: str) -> None:
    with a_bare_console(program, environment={"LC_ALL": locale, "LANG": locale}) as console:
        is_alive_and_well(console)
        assert console.text.isascii()
        console.type(":café\r".encode("latin-1"))
        is_alive_and_well(console)
        ends_by_its_key(console)


@pytest.fixture(scope="module")
def the_console(shared_program: Program) -> Iterator[Callable[[], OnPty]]:
    """One for all that a console outlives."""
    with one_bare_console(shared_program) as console:
        yield console


def test_f6_a_storm_of_sizes_ends_in_a_whole_screen(the_console: Callable[[], OnPty]) -> None:
    console = the_console()
    for turn in range(300):
        console.resize(1 + turn * 37 % 250, 1 + turn * 11 % 70)
        console.read(0.005)
    console.forget()
    console.resize(80, 24)
    console.wait(r"╰─+.*─╯")
    is_alive_and_well(console)


def test_f6_a_console_that_is_suspended_gives_the_terminal_back_and_takes_it_again(
    the_console: Callable[[], OnPty],
) -> None:
    console = the_console()
    for _ in range(3):
        console.signal(signal.SIGTSTP)
        console.wait_stopped()
        console.read(0.1)
        assert console.is_echoing()
        assert all(sequence in console.raw for sequence in RESTORED)
        console.forget()
        console.signal(signal.SIGCONT)
        console.wait_raw(ENTERED)
        is_alive_and_well(console)


def test_f6_a_console_that_was_stopped_outright_goes_on(the_console: Callable[[], OnPty]) -> None:
    console = the_console()
    is_alive_and_well(console)
    threads, stops = console.threads(), 8
    for _ in range(stops):
        console.signal(signal.SIGSTOP)
        console.wait_stopped()
        console.forget()
        console.signal(signal.SIGCONT)
        console.wait_raw(ENTERED)
        is_alive_and_well(console)
    # A pool starts its threads as it needs them: a leak is a thread for each stop, not one more than before.
    assert console.threads() < threads + stops


def test_f1_a_console_ends_with_its_line(program: Program) -> None:
    with a_bare_console(program) as console:
        console.hang_up()
        assert console.wait_ended() == 129
