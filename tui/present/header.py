"""The header line: cluster, account, credentials, cost."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from actions.base.wording import duration
from actions.run.paid import Paid
from tui.present.cells import Cells, Link, Span, Tone, width_of

_EXPIRES_SOON_SECONDS = 15 * 60
_SEPARATOR = Span(" · ", Tone.MUTED)


class HeaderFacts(msgspec.Struct, frozen=True):
    """The contents of the header line. Texts are cleaned; an empty one is unknown.

    Args:
        expires_in_seconds: Time until the credentials expire; negative afterwards, `None` if unknown or never.
        needed_seconds: Longest expected time for what is left of the run on screen; `None` if they renew themselves.
        demo: Badge of the embedded cluster, empty on a real one.
        paid: What is paid for by the hour; `None` if that is not known yet.
        leaves_out_claims: Devices of claims are not counted, so that what is idle is not known.
        as_of: `as of 14:02 UTC` while nodes and costs are a kept snapshot's; else empty.
        trouble: Reason why the snapshot may be stale; empty while it is live.
        is_refused: Nodes may not be listed, so that no sum is to be waited for.
        unused: Accelerators of the run on screen at 0 % for minutes; empty if there are none.
        alarm: Reason why the run on screen cannot continue; empty if it can.
    """

    account: str = ""
    cluster: str = ""
    region: str = ""
    expires_in_seconds: float | None = None
    needed_seconds: float | None = None
    demo: str = ""
    is_readonly: bool = False
    paid: Paid | None = None
    leaves_out_claims: bool = False
    as_of: str = ""
    trouble: str = ""
    is_refused: bool = False
    alarm: str = ""
    unused: str = ""


def header_line(facts: HeaderFacts, width: int) -> Cells:
    """Format the widest header that fits, with the cost at its right end.

    Returns:
        Exactly `width` columns. Cluster, badges and the hourly sum are cut last; credentials that last give way to the
        cost of idle accelerators.
    """
    last: Cells = ()
    for left, right in _forms(facts):
        room = width - width_of(left) - width_of(right)
        last = (*left, Span(" " * max(room, 1)), *right)
        if room >= 1:
            break
    return last


def _forms(facts: HeaderFacts) -> Iterator[tuple[Cells, Cells]]:
    yield _left(facts), _right(facts, with_idle=True)
    short = replace(facts, demo=facts.demo.partition(",")[0])
    yield _left(short), _right(short, with_idle=True)
    short = replace(short, account=f"…{short.account[-4:]}" if len(short.account) > 5 else short.account)
    yield _left(short), _right(short, with_idle=True)
    short = replace(short, unused=short.unused.partition(" for ")[0].replace(" accelerators", ""))
    yield _left(short), _right(short, with_idle=True)
    short = replace(short, account="", trouble=short.trouble.partition(": ")[0])
    yield _left(short), _right(short, with_idle=True)
    short = replace(short, region="")
    yield _left(short), _right(short, with_idle=True)
    short = replace(short, alarm=short.alarm.partition(" since ")[0])
    yield _left(short), _right(short, with_idle=True)
    if _is_calm(short.expires_in_seconds, short.needed_seconds):
        short = replace(short, expires_in_seconds=None)
        yield _left(short), _right(short, with_idle=True)
    yield _left(short), _right(short, with_idle=False)


def _left(facts: HeaderFacts) -> Cells:
    badges: list[Span] = []
    if facts.demo:
        badges += [Span(f" {facts.demo} ", Tone.ACCENT), Span(" ")]
    if facts.is_readonly:
        badges += [Span(" read-only ", Tone.WARN), Span(" ")]
    places = [
        *([Span(facts.account, Tone.MUTED)] if facts.account else []),
        Link(facts.cluster or "no cluster", Tone.STRONG, line="context"),
        *([Span(facts.region)] if facts.region else []),
        *_expiry(facts.expires_in_seconds, facts.needed_seconds),
        *([Span(facts.as_of, Tone.WARN)] if facts.as_of else []),
        *([Span(facts.trouble, Tone.BAD)] if facts.trouble else []),
        *([Link(facts.alarm, Tone.BAD, line="open run")] if facts.alarm else []),
        *([Link(f"▲ {facts.unused}", Tone.WARN, line="open accelerators")] if facts.unused else []),
    ]
    joined: list[Span] = []
    for place in places:
        joined += [place, _SEPARATOR]
    return (Span(" "), *badges, *joined[:-1])


def _is_calm(seconds: float | None, needed_seconds: float | None) -> bool:
    """Return whether the end of the credentials is neither near nor before the end of the run."""
    return seconds is not None and seconds >= max(_EXPIRES_SOON_SECONDS, needed_seconds or 0.0)


def _expiry(seconds: float | None, needed_seconds: float | None) -> list[Span]:
    if seconds is None:
        return []
    if seconds <= 0:
        return [Span("credentials expired", Tone.BAD)]
    if needed_seconds is not None and seconds < needed_seconds:
        return [Span(f"creds {duration(seconds)}! run {duration(needed_seconds)}", Tone.WARN)]
    soon = seconds < _EXPIRES_SOON_SECONDS
    return [Span(f"creds {duration(seconds)}{'!' if soon else ''}", Tone.WARN if soon else Tone.PLAIN)]


def _right(facts: HeaderFacts, *, with_idle: bool) -> Cells:
    """Return what is paid for by the hour, in one number; what is idle of it where there is room."""
    paid = facts.paid
    if paid is None or (paid.nodes is None and not paid.things):
        return (Span("$ ? /h " if facts.is_refused else "$ … /h ", Tone.MUTED),)
    cost = paid.nodes
    is_old = bool(facts.as_of) or cost is None
    cells: list[Span] = [Link(paid.hourly.text, Tone.MUTED if is_old else Tone.STRONG, line="open cost")]
    if with_idle and cost is not None and cost.accelerators and not facts.leaves_out_claims:
        count = cost.idle_accelerators
        tone = Tone.MUTED if facts.as_of else Tone.WARN if count else Tone.GOOD
        text = f"{count} idle {cost.idle.text}!" if count else f"all {cost.accelerators} in use"
        cells += [_SEPARATOR, Link(text, tone, line="open cost")]
    return (*cells, Span(" "))
