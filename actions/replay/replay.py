"""A capture that is open for a replay: its index, its clock, sessions with its clusters, its runs."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from actions.base.clock import Clock, parse_rfc3339
from actions.base.errors import MissingError, ParameterError
from actions.base.readonly import promise_readonly
from actions.capture.entries import Connected
from actions.capture.reader import CaptureReader
from actions.cluster.auth.credentials import Credentials
from actions.cluster.auth.kubeconfig import ChosenContext
from actions.cluster.auth.session import KubeSession
from actions.replay.clock import ReplayClock
from actions.replay.index import CaptureIndex, read_index
from actions.replay.runs import ReplayedRuns
from actions.replay.server import ReplayTransport

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class Replay:
    """One capture, shown. Closed by its maker.

    Args:
        index: The capture.
        speed: Seconds of the capture in one second.
        clock: This machine's time.
    """

    def __init__(self, index: CaptureIndex, *, speed: float = 1.0, clock: Clock | None = None) -> None:
        self.index = index
        self.clock = ReplayClock(index.began.wall, index.length, speed=speed, clock=clock)
        self.runs = ReplayedRuns(index)
        self._transport: ReplayTransport | None = None

    def session(self) -> KubeSession:
        """Return a session with the cluster that was on screen at the moment.

        Raises:
            MissingError: The capture has none.
        """
        cluster = self.index.cluster_at(self.clock.at)
        if cluster is None:
            raise MissingError("The capture has no cluster.", hint="It was taken without one.")
        chosen = ChosenContext("", cluster.context, cluster.cluster, cluster.server, cluster.namespace)
        self._transport = ReplayTransport(self.index, self.clock, cluster)
        return KubeSession(chosen, self._transport, Credentials(chosen, clock=self.clock), readonly=False)

    @property
    def is_caught_up(self) -> bool:
        """True if the newest session has handed over all that had come by the moment."""
        return self._transport is None or self._transport.is_caught_up

    def cluster(self) -> Connected | None:
        """Return the cluster that was on screen at the moment."""
        return self.index.cluster_at(self.clock.at)

    def use_runs(self) -> None:
        """Show this process the runs of the capture in the place of the machine's own, and let it change nothing."""
        promise_readonly()
        self.point_to_runs()

    def point_to_runs(self) -> None:
        """Show this process the folders of the present generation."""
        os.environ["XDG_STATE_HOME"] = str(self.runs.state_home)

    def moment(self, text: str) -> float:
        """Return the moment that a person means, in seconds since the begin.

        Args:
            text: `+30s`, `-2m` from the present one; `14:02`, `14:02:07`, a whole timestamp (UTC); `90s`, `1h` since
                the begin; `start`, `end`.

        Raises:
            ParameterError: It means none.
        """
        word = text.strip()
        if word in ("start", "end"):
            return 0.0 if word == "start" else self.clock.length
        sign, rest = (word[0], word[1:]) if word[:1] in ("+", "-") else ("", word)
        seconds = _seconds_in(rest)
        if seconds is not None:
            return seconds if not sign else self.clock.at + (seconds if sign == "+" else -seconds)
        at = None if sign else self._time_of(word)
        if at is None:
            raise ParameterError(
                f"{text!r} is not a moment.", hint="Write +30s, -2m, 14:02, 14:02:07, 90s (from the start), start, end."
            )
        return at

    def _time_of(self, word: str) -> float | None:
        began = datetime.fromtimestamp(self.clock.began_at, UTC)
        try:
            if "T" in word:
                moment = parse_rfc3339(word if word.endswith("Z") or "+" in word else f"{word}Z")
                return moment.timestamp() - self.clock.began_at
            hours, minutes, *seconds = (int(part) for part in word.split(":"))
            moment = began.replace(hour=hours, minute=minutes, second=seconds[0] if seconds else 0, microsecond=0)
        except (ValueError, OverflowError):
            return None
        at = moment.timestamp() - self.clock.began_at
        if at < -60:  # a capture over midnight
            at += 86400
        return at

    def close(self) -> None:
        """Remove what was unpacked."""
        self.runs.close()
        self.index.close()


def _seconds_in(text: str) -> float | None:
    if not text:
        return None
    total, number = 0.0, ""
    for sign in text:
        if sign.isdecimal() or sign == ".":
            number += sign
        elif sign in _UNITS and number:
            try:
                total += float(number) * _UNITS[sign]
            except ValueError:
                return None
            number = ""
        else:
            return None
    return None if number else total


def open_replay(file: Path, *, speed: float = 1.0) -> Replay:
    """Read a capture. Blocking: a long one takes seconds.

    Raises:
        UnreadableError: It is not a capture, damaged, or too large.
    """
    return Replay(read_index(CaptureReader(file)), speed=speed)
