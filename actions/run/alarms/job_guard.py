"""The guard of a job that no runner carries out: its rules, and its alarms in a Lease beside the job.

One guard of a job holds the Lease and sends; others wait until it is given back, or was not renewed for a while. What
was sent is in an annotation, so that the next guard, on any machine, sends nothing twice. The Lease is owned by the
job, and goes with it. Where it may not be written, a guard sends without one.

Source: client-go `tools/leaderelection`: a Lease has ended when it was not changed for its duration by the clock of
who waits for it; each write is conditional on the version that was read.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from decimal import Decimal

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock
from actions.base.decoding import decode_json
from actions.base.errors import AccessError, ConflictError, ConsoleError, MissingError, RefusedError
from actions.base.numbers import MOST_DIGITS, moment
from actions.base.untrusted import one_line
from actions.blueprint.render import MANAGED_BY, MANAGER
from actions.cluster.auth.session import KubeSession, decode_document
from actions.cluster.objects.operations import Target
from actions.fleet.quantity import format_usd
from actions.run.alarms.alarm_companion import CONFIG
from actions.run.alarms.causes import Alarm
from actions.run.alarms.ways import HOOK, WEBHOOK
from actions.run.context.operator import present_operator
from actions.run.limits.options import moment_text
from actions.run.limits.rules import IDLE_NEAR_SHARE
from actions.run.state.alarms import AlarmName, alarms_after
from actions.run.state.fold import fold
from actions.run.state.records import (
    AlarmBody,
    AlarmKind,
    AlarmRaised,
    AlarmSent,
    Body,
    ClusterName,
    Created,
    JournalRecord,
    StageOutline,
)
from actions.run.state.view import AlarmView, RunView

LEASE_SECONDS = 15.0
RENEW_SECONDS = 5.0
ALARMS = "eksml.dev/alarms"
"""The annotation with the alarms."""
_KEPT_SECONDS = 3600.0
"""An alarm that is over counts for so long among those of an hour."""
_ASTRAY_SECONDS = 300.0
"""By so much the clocks of two guards may differ."""
_WAYS = frozenset({HOOK, WEBHOOK, CONFIG})
_MOST_SEQ = 10**MOST_DIGITS


class IdleRule(msgspec.Struct, frozen=True):
    """The idle limit of a job.

    Args:
        seconds: Time; 0 for no limit.
        below_pct: An accelerator with less load is idle.
        parks: Suspend the job then; else only say so.
    """

    seconds: float = 0.0
    below_pct: float = 5.0
    parks: bool = False

    def is_reached(self, since: float | None, now: float) -> bool:
        """Return whether accelerators that are idle since a time have been so for as long as is allowed."""
        return bool(self.seconds) and since is not None and now - since >= self.seconds

    def alarms(self, title: str, since: float | None, usd_per_hour: Decimal | None, now: float) -> Iterator[Alarm]:
        """Yield the alarm of an idle time, from half of what is allowed on.

        Args:
            title: The job, at the begin of a sentence.
            since: Begin of the idle time in seconds since the epoch; `None` for none.
            usd_per_hour: Of the nodes that its pods are on; `None` if unknown.
            now: Seconds since the epoch.
        """
        if since is None or now - since < IDLE_NEAR_SHARE * self.seconds:
            return
        is_reached = self.is_reached(since, now)
        will = "it is suspended" if self.parks else "the limit is reached"
        ending = f" At {moment_text(since + self.seconds)} {will}."
        bill = "What that has cost is not known."
        if usd_per_hour:
            cost = usd_per_hour * Decimal(str(now - since)) / 3600
            bill = f"Its nodes have cost {format_usd(cost)} since, {format_usd(usd_per_hour)}/h."
        text = f"{title}: no accelerator has reached {self.below_pct:g} % since {moment_text(since)}."
        yield Alarm(AlarmName(AlarmKind.IDLE, "reached" if is_reached else "near"), f"{text}{ending} {bill}")


class JobJournal:
    """The alarms of a job: the journal of an `AlarmCompanion`, in a Lease that one guard holds.

    Args:
        session: Of the job's cluster; a read-only one keeps no Lease.
        job: With its uid.
        title: The job as it was typed.
        clock: Time.
        tell: Takes a line for the operator.
    """

    def __init__(
        self, session: KubeSession, job: Target, title: str, clock: Clock, tell: Callable[[str], None]
    ) -> None:
        self._session = session
        self._job = job
        self._clock = clock
        self._tell = tell
        self._holder = f"{present_operator()}/{secrets.token_hex(4)}"
        self._view = _view_of(title, ClusterName("", session.region), clock.now().timestamp())
        self._version = ""
        """Resource version of the Lease as this guard wrote it last; empty while it holds none."""
        self._seen: tuple[str, float] = ("", 0.0)
        """The version that another guard wrote last, and the monotonic second at which it was first seen."""
        self._renewed_at = 0.0
        self._writing = asyncio.Lock()
        self._told = ""
        self._is_owned = True
        """Its job was there when the Lease was read or written last."""
        self._is_alone = False
        """The Lease may not be written: this guard sends without one."""

    async def view(self) -> RunView:
        """Return the job as a run with nothing but alarms."""
        return self._view

    def view_if_readable(self) -> RunView:
        """Return the same."""
        return self._view

    async def is_held(self) -> bool:
        """Take or renew the Lease; return whether this guard is the one that sends. Without an answer that stays."""
        now = self._clock.monotonic()
        if self._is_alone or (self._version and now - self._renewed_at < RENEW_SECONDS):
            return True
        try:
            async with self._writing:
                if not self._version and not await self._take(now):
                    return False
                await self._put_anew()
        except ConflictError:
            self._version = ""
            return False
        except (AccessError, MissingError, RefusedError) as error:
            self._is_alone = True
            self._tell(f"Another guard of this job would send its alarms, too: no Lease is kept. {error.sentence()}")
        except ConsoleError as error:
            self._say(f"The Lease of this guard could not be written: {error.sentence()}")
        return self._is_alone or bool(self._version)

    async def write(self, body: Body) -> None:
        """Keep a record of an alarm.

        Raises:
            ConflictError: Another guard has taken the Lease.
        """
        if not isinstance(body, AlarmBody):
            raise TypeError(f"{type(body).__name__} is not of an alarm.")
        now, seq = self._clock.now().timestamp(), self._view.last_seq + 1
        known = {
            one.seq: one for one in self._view.alarms if not one.is_over or one.left or now - one.at < _KEPT_SECONDS
        }
        alarms_after(known, JournalRecord(seq, now, "", "", 0, body), body)
        self._view = replace(self._view, alarms=tuple(known.values()), last_seq=seq)
        if isinstance(body, AlarmRaised):
            self._tell(body.text)
        elif isinstance(body, AlarmSent):
            self._tell(f"It was not sent by {body.way}: {body.error}" if body.error else f"Sent by {body.way}.")
        self._renewed_at = 0.0
        if not await self.is_held():
            raise ConflictError("Another guard of this job has taken its Lease.")

    async def give_back(self) -> None:
        """Let the next guard begin at once; of a job that is gone, remove the Lease."""
        if self._version and self._is_owned:
            self._holder = ""
            await self._put()
        elif self._version:
            await self._session.request("DELETE", self._path)

    async def _take(self, now: float) -> bool:
        """Read the Lease; return whether it is free."""
        try:
            found = await self._session.get(self._path)
        except MissingError:
            self._is_owned = self._is_owned and not self._seen[0]
            return not self._seen[0] or now - self._seen[1] >= LEASE_SECONDS
        metadata, spec = found.get("metadata") or {}, found.get("spec") or {}
        version, holder = str(metadata.get("resourceVersion") or ""), str(spec.get("holderIdentity") or "")
        if holder == self._holder:  # the answer to its last write was lost
            self._version = version
            return True
        if version != self._seen[0]:
            self._seen = version, now
            alarms = _alarms_in(metadata.get("annotations"), self._clock.now().timestamp())
            last = max((one.seq for one in alarms), default=self._view.last_seq)
            self._view = replace(self._view, alarms=alarms, last_seq=last)
        if holder and now - self._seen[1] < LEASE_SECONDS:
            self._say(f"{one_line(holder.partition('/')[0])} guards this job already: this guard sends when that ends.")
            return False
        self._version = version
        return True

    async def _put_anew(self) -> None:
        """Write the Lease; if it has gone with its job, a new one, so that the end of the job is sent once, too."""
        try:
            await self._put()
        except MissingError:
            if not self._version:
                raise
            self._version, self._is_owned = "", False
            await self._put()

    async def _put(self) -> None:
        """Create the Lease, or replace the version that is known.

        Raises:
            ConflictError: It is another one.
        """
        from kubernetes.aio.client import V1Lease, V1LeaseSpec, V1ObjectMeta, V1OwnerReference

        from actions.cluster.auth.typed import model_document

        job, resource = self._job, self._job.resource
        metadata = V1ObjectMeta(
            name=self._name,
            labels={MANAGED_BY: MANAGER},
            annotations={ALARMS: msgspec.json.encode(self._view.alarms).decode()},
            owner_references=[
                V1OwnerReference(api_version=resource.api_version, kind=resource.kind, name=job.name, uid=job.uid)
            ]
            if self._is_owned
            else None,
            resource_version=self._version or None,
        )
        spec = V1LeaseSpec(
            holder_identity=self._holder, lease_duration_seconds=int(LEASE_SECONDS), renew_time=self._clock.now()
        )
        api_version = "coordination.k8s.io/v1"
        lease = model_document(V1Lease(api_version=api_version, kind="Lease", metadata=metadata, spec=spec))
        method, path = ("PUT", self._path) if self._version else ("POST", self._path.rpartition("/")[0])
        body = await self._session.request(method, path, body=msgspec.json.encode(lease))
        made = decode_document(body, source=path)
        self._version = str((made.get("metadata") or {}).get("resourceVersion") or "")
        self._renewed_at, self._told = self._clock.monotonic(), ""

    @property
    def _name(self) -> str:
        return f"eksml-guard-{self._job.uid}"

    @property
    def _path(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self._job.namespace}/leases/{self._name}"

    def _say(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self._tell(text)


def _alarms_in(annotations: object, now: float) -> tuple[AlarmView, ...]:
    """Return the alarms in a Lease, which others may write: none if they cannot be read.

    Those whose time or number is beyond what can be written are left out, as are those of the future: they would count
    for ever among those of an hour. Texts become one line, as they are sent.
    """
    text = annotations.get(ALARMS) if isinstance(annotations, dict) else ""
    try:
        found = decode_json(str(text).encode(errors="replace"), tuple[AlarmView, ...])
    except msgspec.MsgspecError:
        return ()
    latest = now + _ASTRAY_SECONDS
    return tuple(
        _plain(one) for one in found if moment(one.at) is not None and one.at <= latest and 0 < one.seq < _MOST_SEQ
    )


def _plain(alarm: AlarmView) -> AlarmView:
    """Return an alarm of a Lease with its texts on one line, and the ways that there are."""
    return replace(
        alarm,
        place=one_line(alarm.place),
        text=one_line(alarm.text),
        ways=tuple(way for way in alarm.ways if way in _WAYS),
        sent=tuple(AlarmSent(alarm.seq, one.way, one_line(one.error)) for one in alarm.sent if one.way in _WAYS),
    )


def _view_of(title: str, cluster: ClusterName, now: float) -> RunView:
    """Return a job as a run of one stage with no records: what an alarm has of it is its name."""
    stage = StageOutline(id="job", title=title, kind="job", needs=(), expect_low_seconds=0, expect_high_seconds=0)
    created = Created(title, "", title, "", {}, cluster, (stage,))
    return fold([JournalRecord(1, now, "", "", 0, created)])
