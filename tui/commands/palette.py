"""The command palette: every command of the registry, found by its name or title."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, runtime_checkable

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from actions.command.verbs import COMMANDS, Command


@runtime_checkable
class LineRunner(Protocol):
    """An app that carries a typed line out."""

    async def run_line(self, line: str) -> None:
        """Carry it out."""
        ...


class ConsoleCommands(Provider):
    """Commands that need no argument are carried out; others open the `:` line with their name."""

    async def discover(self) -> Hits:
        """All of them, before anything is typed."""
        for command in COMMANDS:
            yield DiscoveryHit(command.title, self._doing(command), text=_text(command), help=command.help)

    async def search(self, query: str) -> Hits:
        """Those that match what is typed."""
        matcher = self.matcher(query)
        for command in COMMANDS:
            text = _text(command)
            score, offsets = matcher.fuzzy_search.match(matcher.query, text)
            if score > 0:
                shown = Content(text)  # `highlight` would take its brackets for markup
                for offset in offsets:
                    shown = shown.stylize(matcher.match_style, offset, offset + 1)
                yield Hit(score, shown, self._doing(command), help=command.help)

    def _doing(self, command: Command) -> Callable[[], Awaitable[None]]:
        app, screen = self.app, self.screen

        async def run() -> None:
            if any(field.required for field in command.fields()):
                await screen.run_action(f"screen.command_line_with({command.id + ' '!r})")
            elif isinstance(app, LineRunner):
                await app.run_line(command.id)

        return run


def _text(command: Command) -> str:
    return f"{command.title} ({command.usage()})"
