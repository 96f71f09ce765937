"""Jobs of our own on a run's volume that nobody was left to remove: whoever made them was killed before."""

from __future__ import annotations

from actions.base.errors import ConsoleError
from actions.blueprint.render import RUN_LABEL, STAGE_LABEL
from actions.cluster.objects import ObjectRef
from actions.run.exportjob import EXPORT_STAGE
from actions.run.onvolume import LOOK_STAGE
from actions.run.patience import Patience
from actions.run.volumejob import API_VERSION, has_ended
from actions.run.work import StageWork


async def remove_errands(work: StageWork, patience: Patience) -> None:
    """Remove looks, and copies that have ended. A copy that still runs stays: somebody waits for it.

    What cannot be asked or removed is left to the audit, which says so.

    Args:
        work: Of any stage.
        patience: How long the cluster's first answer is waited for.
    """
    if not work.access.is_possible:
        return
    try:
        connection = await work.connect(patience)
        jobs = await connection.list_objects(
            API_VERSION,
            "Job",
            namespace=work.namespace,
            label_selector=f"{RUN_LABEL}={work.view.id},{STAGE_LABEL} in ({LOOK_STAGE},{EXPORT_STAGE})",
        )
        for job in jobs:
            metadata = job["metadata"]
            if metadata["labels"][STAGE_LABEL] == LOOK_STAGE or has_ended(job):
                ref = ObjectRef(API_VERSION, "Job", work.namespace, metadata["name"])
                await connection.delete(ref)
    except ConsoleError:
        return
