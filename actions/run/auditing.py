"""The audit after a teardown: everything that carries the run's label or tag."""

from __future__ import annotations

from actions.base.errors import ConsoleError, UnreachableError
from actions.base.untrusted import one_line
from actions.blueprint.render import RUN_LABEL, RUN_TAG
from actions.cloud.session import AwsSession
from actions.cloud.tags import fetch_tagged, is_still_there
from actions.run.inventory import list_kind, listable_kinds
from actions.run.patience import ONCE, Patience, patiently
from actions.run.view import RunView
from actions.run.work import StageWork
from actions.run.workshop import AuditReport

SETTLE_SECONDS = 60.0
"""Garbage collection gets so long to follow."""
ACCOUNT_SETTLE_SECONDS = 60.0
"""The tagging API gets so long to forget what is gone."""
_ACCOUNT_LOOK_SECONDS = 3.0
_LOOK_SECONDS = 1.0


async def audit_cluster(work: StageWork, *, may_be_gone: bool, patience: Patience) -> AuditReport:
    """Everything in the run's cluster with its label, asked until nothing goes away any more.

    Args:
        work: Of any stage.
        may_be_gone: The run has made the cluster and destroyed it: no answer is no leftover.
        patience: How long an answer is waited for.
    """
    if not work.access.is_possible:
        return AuditReport()
    deadline = work.clock.monotonic() + SETTLE_SECONDS
    while True:
        try:
            found = await patiently(
                lambda: _labelled(work), clock=work.clock, note=work.journal.note, patience=patience
            )
        except UnreachableError as error:
            return AuditReport() if may_be_gone else AuditReport((f"The cluster could not be asked: {error.message}",))
        except ConsoleError as error:
            return AuditReport((f"The cluster could not be asked: {error.message}",))
        if not found or work.clock.monotonic() >= deadline:
            return AuditReport(tuple(found))
        work.journal.note(f"{len(found)} objects are still going: {found[0]}")
        await work.clock.sleep(_LOOK_SECONDS)


async def audit_account(work: StageWork, *, is_data_kept: bool) -> AuditReport:
    """Everything in the run's AWS account with its tag, asked until nothing goes away any more.

    Args:
        work: Of any stage.
        is_data_kept: Stages that hold data were left, with all that they need: what is found then belongs to them, as
            all other stages have been undone.
    """
    session = AwsSession(region=work.view.cluster.region, threads=1)
    deadline = work.clock.monotonic() + (0.0 if is_data_kept else ACCOUNT_SETTLE_SECONDS)
    try:
        while True:
            arns = await fetch_tagged(session, RUN_TAG, work.view.id)
            found = [f"AWS {arn}" for arn in arns if await is_still_there(session, arn)]
            if found and work.clock.monotonic() < deadline:
                work.journal.note(f"{len(found)} resources are still tagged: {found[0]}")
                await work.clock.sleep(_ACCOUNT_LOOK_SECONDS)
                continue
            return AuditReport(retained=tuple(found)) if is_data_kept else AuditReport(tuple(found))
    except ConsoleError as error:
        return AuditReport(unknown=(f"AWS could not be asked what carries the run's tag: {error.message}",))
    finally:
        session.close()


def kept_on_purpose(view: RunView) -> tuple[str, ...]:
    """What was there before the run and is left as it was, one line each."""
    return tuple(
        f"{item.kind} {item.namespace + '/' if item.namespace else ''}{item.name}: was there before the run"
        for item in view.owned
        if item.existed and not item.is_deleted
    )


async def _labelled(work: StageWork) -> list[str]:
    connection = await work.connect(ONCE)
    found = []
    async for kind in listable_kinds(connection):
        for item in await list_kind(connection, kind, selector=f"{RUN_LABEL}={work.view.id}"):
            metadata = item.get("metadata") or {}
            scope = f"{metadata.get('namespace')}/" if metadata.get("namespace") else ""
            found.append(one_line(f"{kind.kind} {scope}{metadata.get('name')}"))
    return found
