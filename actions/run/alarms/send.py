"""The sending of an alarm: one call of a hook or a webhook with an end, and a few tries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from actions.base.clock import Clock, timestamp_of
from actions.base.errors import ConfigError, ConsoleError, UnreachableError
from actions.base.executors import in_thread
from actions.base.files import read_file
from actions.base.process import run_tool
from actions.base.untrusted import KNOWN, one_line, redact
from actions.cloud.download import post
from actions.run.alarms.ways import HOOK, WEBHOOK, AlarmWays

CALL_SECONDS = 10.0
"""Time for one call of a hook or a webhook; then it is ended."""
TRIES = 3
"""Calls for one alarm by one way, with growing pauses."""
FIRST_PAUSE_SECONDS = 1.0
_LONGEST_REASON = 300


class Message(msgspec.Struct, frozen=True):
    """An alarm as hooks and webhooks get it.

    Args:
        key: Its name over all runs: `RUN/failed/train`.
        kind: The value of an `AlarmKind`; `test` for a test.
        run: Id of the run, or name of the job.
        text: One sentence.
        at: Seconds since the epoch at which it was raised.
        cluster: Name of the run's cluster; empty if unknown.
    """

    key: str
    kind: str
    run: str
    text: str
    at: float
    cluster: str = ""

    def document(self) -> bytes:
        """Return what a hook reads from its standard input: one JSON object."""
        fields = {"key": self.key, "kind": self.kind, "run": self.run, "text": redact(self.text)}
        return msgspec.json.encode({**fields, "at": timestamp_of(self.at), "cluster": self.cluster})

    def variables(self) -> dict[str, str]:
        """Return the environment variables of a hook."""
        return {
            "EKSML_ALARM_KEY": self.key,
            "EKSML_ALARM_KIND": self.kind,
            "EKSML_ALARM_RUN": self.run,
            "EKSML_ALARM_TEXT": redact(self.text),
        }

    def webhook_body(self) -> bytes:
        """Return the body for a webhook as Slack takes it: `&`, `<`, `>` are escaped, so no text mentions people."""
        text = redact(self.text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return msgspec.json.encode({"text": text})


async def call(ways: AlarmWays, way: str, message: Message) -> None:
    """Send an alarm by one way, once.

    Raises:
        ConsoleError: It was not taken, with the reason. No sentence names the address of a webhook.
    """
    if way == HOOK and ways.hook:
        await run_tool(
            ways.hook,
            deadline_seconds=CALL_SECONDS,
            extra_environment=message.variables(),
            stdin=message.document(),
        )
    elif way == WEBHOOK and ways.webhook is not None:
        url = await in_thread("webhook", _address_in, ways.webhook)
        async with asyncio.timeout(CALL_SECONDS):
            await post(url, message.webhook_body(), total_seconds=CALL_SECONDS)
    else:
        raise ConfigError(f"No {way} is set any more.")


async def send(ways: Callable[[], AlarmWays], way: str, message: Message, clock: Clock) -> str:
    """Send an alarm by one way, with a few tries.

    Args:
        ways: Reads the settings; called in a thread.
        way: `HOOK` or `WEBHOOK`.
        message: The alarm.
        clock: For the pauses.

    Returns:
        The reason that it was not sent; empty if it was.
    """
    pause, reason = FIRST_PAUSE_SECONDS, ""
    for left in reversed(range(TRIES)):
        try:
            await call(await in_thread("alarms", ways), way, message)
        except TimeoutError:
            reason = UnreachableError(f"The {way} did not answer within {CALL_SECONDS:.0f} s.").sentence()
        except ConsoleError as error:
            reason = error.sentence()
            if isinstance(error, ConfigError):
                break
        else:
            return ""
        if left:
            await clock.sleep(pause)
            pause *= 3
    return one_line(redact(reason), limit=_LONGEST_REASON)


def _address_in(file: Path) -> str:
    """Return the address in a file.

    Raises:
        ConfigError: It cannot be read.
    """
    try:
        address = read_file(file).decode(errors="replace").strip()
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be read: {error.strerror}.", hint="It holds the webhook's address."
        ) from error
    KNOWN.add(address, f"file:{file}")
    return address
