"""From a call to its effect: refused, asked about, or carried out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any

from actions.base.errors import RefusedError
from actions.command.verbs import Arguments, Call, Danger
from tui.modals.confirm import Question

Verb = Callable[[Any], Awaitable[None]]
"""Carries out one command; its argument is the command's own Struct."""

Ask = Callable[[Question], Awaitable[bool]]
Doubt = Callable[[Call], Question | None]
"""What to ask before a call; `None` where the call says it all itself."""
Vouch = Callable[[Call], Arguments]
"""The arguments of a call to which the operator said yes."""


class Carrier:
    """Carries calls out, each by the verb of its command.

    A read-only session refuses whatever could change something before anything else happens. A dangerous call that
    comes from a key or the `:` line is asked about; one from a script has said it all.

    Args:
        verbs: Makes the verbs, by command id, one for every command. Called for the first call: they import all that
            can be done with the console.
        is_readonly: Refuse mutations.
        ask: Shows a question and waits for the answer.
        doubt: The question before a call.
        vouch: What a yes adds to the arguments.
    """

    def __init__(
        self, verbs: Callable[[], Mapping[str, Verb]], *, is_readonly: bool, ask: Ask, doubt: Doubt, vouch: Vouch
    ) -> None:
        self._make_verbs = verbs
        self._is_readonly = is_readonly
        self._ask = ask
        self._doubt = doubt
        self._vouch = vouch

    @property
    def known(self) -> frozenset[str]:
        """Ids of the commands that it can carry out."""
        return frozenset(self._verbs)

    @cached_property
    def _verbs(self) -> Mapping[str, Verb]:
        return self._make_verbs()

    def refuse_mutation(self, call: Call) -> None:
        """Refuse what a read-only session may not do.

        Raises:
            RefusedError: The session is read-only and the call could change something.
        """
        if self._is_readonly and call.command.is_mutation:
            raise RefusedError(
                f"This console is read-only: {call.command.id} was not carried out.", hint="Start without --readonly."
            )

    async def carry(self, call: Call, *, is_asked: bool) -> bool:
        """Carry `call` out.

        Args:
            call: What to do.
            is_asked: Whether somebody is there to be asked.

        Returns:
            Whether it was done; `False` if the operator said no.

        Raises:
            ConsoleError: It cannot be done.
        """
        self.refuse_mutation(call)
        arguments = call.arguments
        question = self._doubt(call) if is_asked and call.command.danger is not Danger.NONE else None
        if question is not None:
            if not await self._ask(question):
                return False
            arguments = self._vouch(call)
        await self._verbs[call.command.id](arguments)
        return True
