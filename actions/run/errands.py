"""Jobs of our own on a run's volume that nobody was left to remove: whoever made them was killed before."""

from __future__ import annotations

from msgspec.structs import replace

from actions.base.errors import ConsoleError
from actions.run.access import Connection
from actions.run.inventory import ref_of_owned
from actions.run.judgement import doubt_about
from actions.run.patience import Patience
from actions.run.removal import request_removal, seen
from actions.run.view import OwnedObject
from actions.run.volumejob import API_VERSION, EXPORT_PREFIX, LOOK_PREFIX, has_ended
from actions.run.work import StageWork


async def remove_errands(work: StageWork, patience: Patience) -> None:
    """Remove looks, and copies that have ended. A copy that still runs stays: somebody waits for it.

    What cannot be asked or removed is left to the audit, which says so.

    Args:
        work: Of any stage.
        patience: How long the cluster's first answer is waited for.
    """
    errands = [item for item in work.view.owned if _is_errand(item)]
    if not errands or not work.access.is_possible:
        return
    try:
        connection = await work.connect(patience)
        for item in errands:
            await _remove(work, connection, item)
    except ConsoleError:
        return


async def _remove(work: StageWork, connection: Connection, item: OwnedObject) -> None:
    ref = ref_of_owned(item)
    found = await seen(connection, ref)
    if found is not None and (found.uid == item.uid or not doubt_about(found, item, work.view.id)):
        if item.name.startswith(EXPORT_PREFIX) and not has_ended(await connection.fetch(ref)):
            return
        await request_removal(connection, ref, found.uid, clock=work.clock)
    await work.journal.deleted(replace(item, is_deleted=True))


def _is_errand(item: OwnedObject) -> bool:
    is_job = (item.api_version, item.kind) == (API_VERSION, "Job")
    return is_job and not item.is_deleted and item.name.startswith((LOOK_PREFIX, EXPORT_PREFIX))
