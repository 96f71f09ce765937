"""The interface between handlers and the app: the actions they may take, and the type of a handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from textual.screen import Screen
from textual.widget import Widget

from actions.base.errors import ConfigError
from actions.fleet.facts import PodFacts
from tui.feeds.followed import FollowedCluster
from tui.screens.confirm import Confirmation

Handler = Callable[[Any], Awaitable[None]]
"""A function that carries out one command; its argument is the command's own Struct."""


async def _as_it_was(text: str, _argv: Sequence[str]) -> str:
    return text


async def _refused(_confirmation: Confirmation) -> bool:
    return False


async def _not_typed(_text: str) -> None:
    pass


async def _not_run(_argv: Sequence[str], _environment: Mapping[str, str]) -> int:
    return 0


class AppActions(msgspec.Struct, frozen=True):
    """The actions of the app that handlers use, passed in so that they need not import it.

    Args:
        show: Put a screen in front.
        notify_plainly: Show one sentence; markup in it is not interpreted.
        withdraw_notification: Take a sentence away that is no longer true.
        save_screen: Write the screen, or a part of it, to a file, without the line and notifications that are over it.
        leave: End the console.
        close_notifications: Take away all notifications; `False` if there is none.
        close_front: Close the screen in front of the console; `False` if there is none.
        front: Return the screen in front: the console itself, if no other one is.
        open_shell: Put a shell in a container of a cluster in front.
        allow_plugin: Ask whether an exec plugin may be started, if an error is about one.
        choose_theme: Draw in the theme of this name.
        edit_text: Open a text in an editor, given by its command line; return it as it was saved.
        confirm: Ask whether to go on.
        type_line: Open the `:` line with a text on it.
        run_in_front: Run a program, with all its variables, that has the terminal; return its exit code.
        run_beside: Carry out work while the console goes on; it ends with it.
    """

    show: Callable[[Screen[None]], None]
    notify_plainly: Callable[[str], None]
    save_screen: Callable[[Path, Widget | None], Awaitable[None]]
    leave: Callable[[], None]
    close_notifications: Callable[[], bool]
    close_front: Callable[[], bool]
    open_shell: Callable[[FollowedCluster, PodFacts, str], None]
    allow_plugin: Callable[[ConfigError], Awaitable[bool]]
    front: Callable[[], Screen[Any] | None] = lambda: None
    withdraw_notification: Callable[[str], None] = lambda _: None
    choose_theme: Callable[[str], None] = lambda _: None
    edit_text: Callable[[str, Sequence[str]], Awaitable[str]] = _as_it_was
    confirm: Callable[[Confirmation], Awaitable[bool]] = _refused
    type_line: Callable[[str], Awaitable[None]] = _not_typed
    run_in_front: Callable[[Sequence[str], Mapping[str, str]], Awaitable[int]] = _not_run
    run_beside: Callable[[Coroutine[Any, Any, None]], None] = lambda work: work.close()
