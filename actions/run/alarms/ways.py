"""The ways by which alarms are sent: a program, and a webhook, as `config.yaml` has them."""

from __future__ import annotations

from datetime import datetime, time
from pathlib import Path
from typing import Any

import msgspec

from actions.base.errors import ConfigError, ConsoleError, InputError
from actions.base.files import config_folder, expanded

HOOK, WEBHOOK = "hook", "webhook"
SILENCED = "EKSML_ALARMS"
"""The environment variable of a runner that sends none if it is `off`: a script plays, which has its expectations."""


class AlarmWays(msgspec.Struct, frozen=True):
    """The ways by which alarms are sent, and when none is.

    Args:
        hook: Program and arguments to start, without a shell; empty for none.
        webhook: File with the address to send `{"text": "…"}` to, as Slack's incoming webhooks take it.
        quiet_from: Begin of the quiet hours, UTC; the same as `quiet_to` for none.
        quiet_to: Their end.
    """

    hook: tuple[str, ...] = ()
    webhook: Path | None = None
    quiet_from: time = time(0)
    quiet_to: time = time(0)

    @property
    def names(self) -> tuple[str, ...]:
        """The ways that are set."""
        return (*([HOOK] if self.hook else []), *([WEBHOOK] if self.webhook is not None else []))

    def is_quiet_at(self, moment: time) -> bool:
        """Return whether a time of day, UTC, is in the quiet hours, which may go over midnight."""
        if self.quiet_from <= self.quiet_to:
            return self.quiet_from <= moment < self.quiet_to
        return moment >= self.quiet_from or moment < self.quiet_to

    def names_at(self, moment: datetime) -> tuple[str, ...]:
        """Return the ways by which an alarm of this moment is sent."""
        return () if self.is_quiet_at(moment.time()) else self.names


def hours_of(text: str) -> tuple[time, time] | None:
    """Read hours such as `22:00-07:00`; `None` if they are none."""
    begin, _, end = text.partition("-")
    try:
        return time.fromisoformat(begin), time.fromisoformat(end)
    except ValueError:
        return None


def load_ways() -> AlarmWays:
    """Return the ways that the operator's `config.yaml` on this machine sets. Blocking disk I/O.

    Raises:
        ConfigError: It cannot be read, or has a mistake.
    """
    from actions.base.yamldoc import load_documents, read_input  # the first frame needs none

    file = config_folder() / "config.yaml"
    if not file.exists():
        return AlarmWays()
    try:
        documents = load_documents(read_input(file), file=str(file), kind=InputError)
    except ConsoleError as error:
        raise ConfigError(error.message, hint=error.hint) from error
    values = documents[0].value if documents else {}
    return ways_of(values if isinstance(values, dict) else {}, file.parent)


def ways_of(values: dict[str, Any], folder: Path) -> AlarmWays:
    """Return the ways among settings; what the command line would refuse is a mistake here, too.

    Args:
        values: Of `config.yaml`.
        folder: Where it is: a relative path is below it.

    Raises:
        ConfigError: One of them is not of its form.
    """
    hook, webhook = values.get("alarm_hook", []), values.get("alarm_webhook", "")
    quiet = hours_of(values["quiet_hours"]) if values.get("quiet_hours") else (time(0), time(0))
    is_list = isinstance(hook, list) and all(isinstance(word, str) for word in hook)
    if not is_list or not isinstance(webhook, str) or quiet is None:
        raise ConfigError(f"The alarms in {folder / 'config.yaml'} have a mistake.", hint="Run `eksml-tui config`.")
    return AlarmWays(tuple(hook), folder / expanded(webhook) if webhook else None, *quiet)
