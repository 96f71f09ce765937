"""Notices in words, for whoever shows them."""

from __future__ import annotations

from actions.base.clock import time_of_day
from actions.run.view import Notice, NoticeKind

GIVEN_UP = "Its runner has died five times in ten minutes: it is not started again by itself."


def has_given_up(notice: Notice) -> bool:
    """Return whether a run without a runner does not get another one by itself."""
    return notice.kind is NoticeKind.NO_RUNNER and notice.text == GIVEN_UP


def notice_line(notice: Notice) -> str:
    """The sentence with its moment: `The disk is full… (since 12:03:04 UTC)`."""
    return notice.text if notice.since is None else f"{notice.text} (since {time_of_day(notice.since)} UTC)"


def notice_words(notice: Notice) -> str:
    """As short as a header has room for: `disk full since 12:03:04 UTC`."""
    return notice.kind.value if notice.since is None else f"{notice.kind.value} since {time_of_day(notice.since)} UTC"
