"""The shell screen: a terminal in a container."""

from __future__ import annotations

import asyncio

from textual import on, work
from textual.app import ComposeResult
from textual.content import Content
from textual.screen import Screen

from actions.base.errors import ConsoleError
from actions.base.untrusted import one_line, redact
from actions.fleet.facts import PodFacts
from tui.feeds.cluster import ClusterFeed
from tui.present.cells import Span, Tone
from tui.widgets.base import Lines
from tui.widgets.terminal import ENVIRONMENT, TerminalView

_BASH_OR_SH = "command -v bash >/dev/null 2>&1 && exec bash || exec sh"
_HINT = (Span(" ctrl+] q", Tone.ACCENT), Span(" leave the shell; every other key goes to the program", Tone.MUTED))
_PREFIXED = (
    Span(" q", Tone.ACCENT),
    Span(" leave the shell  ", Tone.WARN),
    Span("ctrl+]", Tone.ACCENT),
    Span(" send ctrl+] to the program  ", Tone.WARN),
    Span("any other key: neither", Tone.MUTED),
)


def shell_argv() -> list[str]:
    """Return the argument list of a shell, with the terminal type of the emulator."""
    return ["env", *(f"{name}={value}" for name, value in ENVIRONMENT.items()), "sh", "-c", _BASH_OR_SH]


class ShellScreen(Screen[None]):
    """A shell in a container; closes when the shell exits, or on ctrl+] and q, which end the shell.

    Args:
        cluster: The cluster of the pod.
        pod: The pod.
        container: Name of its container.
        title: At the border.
    """

    def __init__(self, cluster: ClusterFeed, pod: PodFacts, container: str, title: str) -> None:
        super().__init__()
        self._cluster = cluster
        self._pod = pod
        self._container = container
        self._heading = title
        self._terminal = TerminalView()
        self._hints = Lines([_HINT], id="hints")
        self._typed: asyncio.Queue[bytes | tuple[int, int]] = asyncio.Queue()

    def compose(self) -> ComposeResult:
        """Yield the terminal, and the keys that leave it."""
        self._terminal.border_title = Content(self._heading)
        yield self._terminal
        yield self._hints

    def on_mount(self) -> None:
        """Start the shell."""
        self._terminal.focus()
        self._talk()

    @on(TerminalView.Typed)
    def _on_typed(self, event: TerminalView.Typed) -> None:
        event.stop()
        self._typed.put_nowait(event.data)

    @on(TerminalView.Resized)
    def _on_resized(self, event: TerminalView.Resized) -> None:
        event.stop()
        self._typed.put_nowait((event.columns, event.rows))

    @on(TerminalView.Prefixed)
    def _on_prefixed(self, event: TerminalView.Prefixed) -> None:
        event.stop()
        self._hints.show([_PREFIXED if event.is_open else _HINT])

    @on(TerminalView.Left)
    def _on_left(self, event: TerminalView.Left) -> None:
        event.stop()
        self._end("")

    @work(exclusive=True, group="shell")
    async def _talk(self) -> None:
        from actions.cluster.remote.exec import ExecSession, open_exec

        async def send(session: ExecSession) -> None:
            while True:
                match await self._typed.get():
                    case bytes() as data:
                        await session.write(data)
                    case (columns, rows):
                        await session.resize(columns, rows)

        pod = self._pod
        try:
            async with open_exec(
                self._cluster.session, pod.namespace, pod.name, self._container, shell_argv()
            ) as session:
                sending = asyncio.create_task(send(session), name="shell keys")
                try:
                    while (data := await session.read()) is not None:
                        await self._terminal.feed(data)
                finally:
                    sending.cancel()
                    await asyncio.gather(sending, return_exceptions=True)  # reading raises the same error
            self._end("" if not session.exit_code else f"The shell exited with code {session.exit_code}.")
        except ConsoleError as error:
            self._end(error.sentence())

    def _end(self, message: str) -> None:
        if message:
            self.app.notify(one_line(redact(message)), severity="warning", markup=False)
        if self.is_current:
            self.dismiss(None)
