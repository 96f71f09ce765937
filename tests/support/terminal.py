"""A real terminal for the real program: tmux, driven key by key, read as text."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from actions.base.process import identity_of, kill, wait_for_end
from tests.support.missing import needs

needs_tmux = needs("tmux")

_USUAL_SECONDS = 120.0
"""The longest wait for a screen; a busy machine needs ten times as long as an idle one."""
_LIFE_SECONDS = 1.0
"""The time between two looks whether a program that is waited for lives: each look starts tmux."""
_LONGEST_PAUSE_SECONDS = 0.3
"""Between two looks at a screen."""
_STACKS_SECONDS = 10.0
SHOWS_STACKS = {"PYTHONFAULTHANDLER": "1"}
"""In the environment of a program: SIGABRT makes it write what each of its threads is doing."""


class Terminal:
    """One tmux server with one window that runs `argv`.

    Args:
        argv: The program.
        environment: Set for the program, on top of a small clean one.
        size: Columns and rows.
        directory: Where it runs; its socket and output lie there too.
    """

    def __init__(
        self, argv: Sequence[str], *, environment: Mapping[str, str], size: tuple[int, int], directory: Path
    ) -> None:
        self._socket = f"eksml-{uuid.uuid4().hex[:8]}"
        columns, rows = size
        variables = [f"{name}={value}" for name, value in {**environment, **SHOWS_STACKS}.items()]
        self._tmux(
            "new-session", "-d", "-s", "t", "-x", str(columns), "-y", str(rows), "-c", str(directory),
            "env", *variables, *argv,
            ";", "set-option", "-g", "status", "off", ";", "set-option", "-g", "remain-on-exit", "on",
        )  # fmt: skip

    def press(self, *keys: str) -> None:
        """Press keys by tmux's names, one call each."""
        for key in keys:
            self._tmux("send-keys", "-t", "t", key)

    def press_at_once(self, *keys: str) -> None:
        """Press keys in one go, as a slow line delivers them."""
        self._tmux("send-keys", "-t", "t", *keys)

    def type(self, text: str) -> None:
        """Type text, letter by letter."""
        for letter in text:
            self._tmux("send-keys", "-t", "t", "-l", letter)

    def paste(self, text: str) -> None:
        """Paste text as tmux does: between the marks of a paste, with every control that is in it."""
        self._tmux("set-buffer", "--", text)
        self._tmux("paste-buffer", "-p", "-t", "t")

    def text(self, *, colours: bool = False) -> str:
        """The screen, lines without trailing blanks."""
        return self._tmux("capture-pane", "-p", "-t", "t", *(["-e"] if colours else []))

    def resize(self, columns: int, rows: int) -> None:
        """Change the window's size."""
        self._tmux("resize-window", "-t", "t", "-x", str(columns), "-y", str(rows))

    def pid(self) -> int:
        """Of the program."""
        return int(self._tmux("display-message", "-p", "-t", "t", "#{pane_pid}"))

    def flags(self, *names: str) -> list[str]:
        """Return tmux's values for the terminal, by the names of its formats: `alternate_on`, `cursor_flag`."""
        wanted = " ".join(f"#{{{name}}}" for name in names)
        return self._tmux("display-message", "-p", "-t", "t", wanted).split()

    def is_dead(self) -> bool:
        """Return whether the program has ended."""
        return self._tmux("display-message", "-p", "-t", "t", "#{pane_dead}").strip() == "1"

    def wait(self, pattern: str, *, seconds: float = _USUAL_SECONDS, press: str = "") -> re.Match[str]:
        """Wait until a regular expression is on the screen.

        Args:
            pattern: Searched with `^` and `$` at line ends.
            seconds: How long.
            press: A key to press again and again while waiting, for what has to be asked for.
        """
        found: list[re.Match[str]] = []

        def look() -> bool:
            if press:
                self.press(press)
            match = re.search(pattern, self.text(), re.MULTILINE)
            found.extend([match] if match else [])
            return match is not None

        self.until(look, f"{pattern!r} on the screen", seconds=seconds)
        return found[0]

    def wait_gone(self, pattern: str, *, seconds: float = _USUAL_SECONDS) -> None:
        """Wait until a regular expression is not on the screen."""
        self.until(lambda: not re.search(pattern, self.text(), re.MULTILINE), f"{pattern!r} gone", seconds=seconds)

    def until(self, holds: Callable[[], bool], what: str, *, seconds: float = _USUAL_SECONDS) -> None:
        """Wait for a condition; on failure, or when the program ends without it, show the screen."""
        began = asked = time.monotonic()
        while not holds():
            now = time.monotonic()
            is_dead = now - asked > _LIFE_SECONDS and self.is_dead() and not holds()
            if is_dead or now > began + seconds:
                said = "; it has ended" if is_dead else ""
                pytest.fail(f"no {what} within {seconds:.0f} s{said}; the screen was:\n{self.text()}{self._stacks()}")
            asked = now if now - asked > _LIFE_SECONDS else asked
            time.sleep(min(0.05 + (now - began) / 20, _LONGEST_PAUSE_SECONDS))

    def _stacks(self) -> str:
        """End a program that hangs, and return what its threads were doing, as far as the screen has room for it."""
        until = time.monotonic() + _STACKS_SECONDS
        if not self.is_dead():
            self._tmux("resize-window", "-t", "t", "-x", "200", "-y", "200")
            os.kill(self.pid(), signal.SIGABRT)
            while not self.is_dead() and time.monotonic() < until:
                time.sleep(_LONGEST_PAUSE_SECONDS)
        return f"\nat the end:\n{self.text()}"

    def wait_end(self, *, seconds: float = _USUAL_SECONDS) -> int:
        """Wait until the program has ended; its exit status, which tmux learns a moment after the end.

        tmux may never learn it: when the terminal is closed, libutempter ignores SIGCHLD while it waits for a program
        of its own, and the end of ours may fall into that time. A signal that says it again makes tmux look.
        """
        deadline = time.monotonic() + seconds
        while not (status := self.flags("pane_dead_status")):
            if self.is_dead():
                os.kill(self._server_pid(), signal.SIGCHLD)
            if time.monotonic() > deadline:
                pytest.fail(f"no end of the program within {seconds:.0f} s; the screen was:\n{self.text()}")
            time.sleep(0.1)
        return int(status[0])

    def _server_pid(self) -> int:
        """Of tmux."""
        return int(self._tmux("display-message", "-p", "-t", "t", "#{pid}"))

    def close(self) -> None:
        """End the program and its tmux, and wait until it has ended: the state that it leaves is the next one's."""
        tmux = ["tmux", "-L", self._socket]
        asked = [*tmux, "display-message", "-p", "-t", "t", "#{?pane_dead,,#{pane_pid}}"]
        pid = subprocess.run(asked, check=False, capture_output=True, text=True).stdout.strip()
        program = identity_of(int(pid)) if pid else None
        subprocess.run([*tmux, "kill-server"], check=False, capture_output=True)
        if program is not None and not wait_for_end(program, seconds=_USUAL_SECONDS):
            kill(program)

    def _tmux(self, *arguments: str) -> str:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
            "LC_ALL": "C.UTF-8",
            "TERM": "screen-256color",
        }
        done = subprocess.run(
            ["tmux", "-L", self._socket, "-f", "/dev/null", *arguments],
            capture_output=True, text=True, check=False, env=environment,
        )  # fmt: skip
        if done.returncode:
            pytest.fail(f"tmux {arguments[0]} failed: {done.stderr.strip()}")
        return done.stdout
