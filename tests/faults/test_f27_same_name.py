"""F27: an object of the same name with another uid is another object: in the picture, in logs, in deletions."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.errors import ConflictError
from actions.cluster.logs.batch import LogBatch
from actions.cluster.logs.follow import ContainerLog, follow
from actions.cluster.objects.client import Discovery, ObjectRef, delete, fetch_object
from tests.faults.cluster import a_faulty_cluster, pods_of, until, watched

POD = ObjectRef("v1", "Pod", "default", "one")


async def test_f27_a_pod_that_was_made_again_is_another_one(tmp_path: Path) -> None:
    async with a_faulty_cluster(tmp_path) as cluster, watched(cluster) as state:
        discovery = Discovery(cluster.session)
        await cluster.make_pod("one")
        await until(state, lambda: "one" in pods_of(state))
        first = str((await fetch_object(cluster.session, discovery, POD))["metadata"]["uid"])
        await cluster.add(kind="silence", name="blind", verbs=["watch"], resources=["pods"], after_bytes=0)
        await cluster.end_pod("one")
        await cluster.make_pod("one")
        await cluster.lift("blind")
        await cluster.break_watches("pods")
        second = str((await fetch_object(cluster.session, discovery, POD))["metadata"]["uid"])
        assert first != second
        await until(state, lambda: [pod.uid for pod in state.snapshot().pods.values()] == [second])

        with pytest.raises(ConflictError):
            await delete(cluster.session, discovery, POD, uid=first)
        assert (await fetch_object(cluster.session, discovery, POD))["metadata"]["uid"] == second

        lines: list[LogBatch] = []
        end = await follow(cluster.session, ContainerLog("default", "one", "main", uid=first), on_lines=lines.append)
        assert (end.reason, lines) == ("gone", [])
