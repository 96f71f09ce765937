"""`eksml-tui alarms`: the alarms that wait, their acknowledgement, and a test of the ways by which they are sent."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from actions.base.clock import SystemClock, timestamp_of
from actions.base.errors import UsageError
from actions.base.wording import aligned_text
from tui.cli.tables.output import print_table

if TYPE_CHECKING:
    from actions.run.alarms.ways import AlarmWays
    from actions.run.journal.reader import RunSummary
    from actions.run.state.view import AlarmView

_FIELDS = ("key", "kind", "run", "text", "at", "sent", "errors")


def run(options: Namespace) -> int:
    """Do what the verb says.

    Returns:
        Of a test: 0 if every way took it, 1 if one did not, 2 if none is set. Else 0.
    """
    if options.verb == "test":
        return _test()
    waiting = _waiting()
    if options.verb == "ack":
        return _acknowledge(waiting)
    print_table(
        options.output,
        table=lambda: _table(waiting),
        document=lambda: _document(waiting),
        fields=_FIELDS,
    )
    return 0


def _waiting() -> list[tuple[RunSummary, AlarmView]]:
    """Return the alarms of the last week that are not acknowledged, oldest first."""
    from actions.run.client import list_runs
    from actions.run.state.alarms import RECENT_SECONDS

    now = SystemClock().now().timestamp()
    readable = [run for run in list_runs() if not (run.error or run.is_copy)]
    found = [(run, alarm) for run in readable for alarm in run.alarms if now - alarm.at < RECENT_SECONDS]
    return sorted(found, key=lambda one: one[1].at)


def _table(waiting: list[tuple[RunSummary, AlarmView]]) -> str:
    from actions.base.clock import time_of_day
    from actions.run.state.alarms import sent_words

    if not waiting:
        return "No alarm waits to be acknowledged.\n"
    lines = [["SINCE (UTC)", "KIND", "SENT", "ALARM"]]
    for _, alarm in waiting:
        lines.append([time_of_day(alarm.at), alarm.kind.value, sent_words(alarm) or "-", alarm.text])
    return aligned_text(lines) + "\n"


def _document(waiting: list[tuple[RunSummary, AlarmView]]) -> str:

    from actions.base.decoding import json_document
    from actions.run.state.alarms import name_of

    return json_document(
        [
            {
                "key": name_of(alarm).key(run.id),
                "kind": alarm.kind.value,
                "run": run.id,
                "text": alarm.text,
                "at": timestamp_of(alarm.at),
                "sent": [one.way for one in alarm.sent if not one.error],
                "errors": {one.way: one.error for one in alarm.sent if one.error},
            }
            for run, alarm in waiting
        ]
    )


def _acknowledge(waiting: list[tuple[RunSummary, AlarmView]]) -> int:
    from actions.run.client import acknowledge_alarms

    for folder in dict.fromkeys(run.folder for run, _ in waiting):
        acknowledge_alarms(folder, [alarm.seq for run, alarm in waiting if run.folder == folder])
    sys.stdout.write("".join(f"Acknowledged: {alarm.text}\n" for _, alarm in waiting) or _table(waiting))
    return 0


def _test() -> int:
    from actions.run.alarms.ways import load_ways
    from tui.settings.config import config_path

    ways = load_ways()
    if not ways.names:
        raise UsageError(
            f"No way to send alarms is set in {config_path()}.",
            hint="Set alarm_hook to a list of words, or alarm_webhook to a file that holds an https address.",
        )
    errors = asyncio.run(_sent_by(ways))
    for way, error in errors.items():
        sys.stdout.write(f"{way}: {error or 'took the test alarm.'}\n")
    if ways.is_quiet_at(SystemClock().now().time()):
        sys.stdout.write("These are quiet hours: runners send no alarm now.\n")
    return 1 if any(errors.values()) else 0


async def _sent_by(ways: AlarmWays) -> dict[str, str]:
    """Send a test alarm by each way, once; return the reason of each that did not take it."""
    import socket

    from actions.base.errors import ConsoleError
    from actions.run.alarms.send import Message, call

    host, now = socket.gethostname(), SystemClock().now().timestamp()
    message = Message(f"{host}/test", "test", "", f"This is a test of eksml-tui's alarms on {host}.", now)
    errors: dict[str, str] = {}
    for way in ways.names:
        errors[way] = ""
        try:
            await call(ways, way, message)
        except ConsoleError as error:
            errors[way] = error.sentence()
    return errors
