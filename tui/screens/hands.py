"""What verbs may do with the app."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from textual.screen import Screen

from actions.base.errors import ConfigError
from actions.fleet.facts import PodFacts


class ScreenHands(msgspec.Struct, frozen=True):
    """What verbs may do with the app, handed in so that they need not know it.

    Args:
        show: Put a screen in front.
        say: Tell the operator one sentence.
        save: Write the settled screen to a file.
        leave: End the console.
        leave_front: Close what is in front of the console; `False` if nothing is.
        open_shell: Put a shell in a container in front.
        allow_plugin: Ask whether an exec plugin may be started, if an error is about one.
    """

    show: Callable[[Screen[None]], None]
    say: Callable[[str], None]
    save: Callable[[Path], None]
    leave: Callable[[], None]
    leave_front: Callable[[], bool]
    open_shell: Callable[[PodFacts, str], None]
    allow_plugin: Callable[[ConfigError], Awaitable[bool]]
