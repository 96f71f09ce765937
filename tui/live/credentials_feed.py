"""Whose AWS credentials these are, and until when."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from actions.base.clock import Clock
from actions.base.errors import ConsoleError

if TYPE_CHECKING:
    from actions.cloud.account import CallerIdentity

REFRESH_SECONDS = 300.0
RETRY_SECONDS = 60.0


class CredentialsFeed:
    """Asks STS now and then: a role's credentials are renewed behind our back, a login's run out.

    Args:
        profile: AWS profile; empty for what the environment decides.
        region: Where the profile names none.
        clock: Time.
        changed: Called when there is another answer.
    """

    def __init__(self, *, profile: str, region: str, clock: Clock, changed: Callable[[], None]) -> None:
        self.caller: CallerIdentity | None = None
        """`None` before the first answer."""
        self.trouble = ""
        """Why there is no answer, in one sentence."""
        self._profile = profile
        self._region = region
        self._clock = clock
        self._changed = changed

    @property
    def account(self) -> str:
        """Twelve digits, or empty."""
        return self.caller.account if self.caller else ""

    @property
    def expires_at(self) -> float | None:
        """Seconds since the epoch; `None` if unknown, or if they do not expire."""
        moment = self.caller.expires_at if self.caller else None
        return moment.timestamp() if moment else None

    async def run(self, live: Callable[[], None]) -> None:
        """Keep asking, for ever. Having no credentials is an answer, not a failure."""
        from actions.cloud.account import fetch_identity
        from actions.cloud.aws_session import AwsSession

        session = AwsSession(profile=self._profile, region=self._region, threads=1)
        try:
            live()
            while True:
                try:
                    self.caller, self.trouble = await fetch_identity(session), ""
                except ConsoleError as error:
                    self.trouble = error.sentence()
                self._changed()
                await self._clock.sleep(RETRY_SECONDS if self.trouble else REFRESH_SECONDS)
        finally:
            session.close()
