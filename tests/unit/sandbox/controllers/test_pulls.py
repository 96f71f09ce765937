"""An image that is not there: the kubelet says so, keeps trying, and the diagnosis names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.cluster.diagnose.engine import diagnose
from actions.cluster.diagnose.parse_input import evidence_of
from actions.sandbox.clientkit.kinds import EVENTS, PODS, Document
from actions.sandbox.model.account import pull_error_of
from tests.unit.sandbox.controllers.server import until, whole_cluster

_IMAGE = "111122223333.dkr.ecr.us-west-2.amazonaws.com/nemo-aws:missing-24.01"


@pytest.mark.parametrize("image", ["busybox", "busybox:1", "localhost:5000/missing/x", f"{_IMAGE}@sha256:{'0' * 64}"])
def test_an_image_with_another_tag_or_a_digest_is_there(image: str) -> None:
    assert pull_error_of(image) == ""


def _is_backing_off(pod: Document | None) -> bool:
    statuses = ((pod or {}).get("status") or {}).get("containerStatuses") or [{}]
    waiting = (statuses[0].get("state") or {}).get("waiting") or {}
    return bool(waiting.get("reason") == "ImagePullBackOff" and waiting["message"].endswith(f"{_IMAGE}: not found"))


async def test_a_tag_that_is_not_there_is_never_pulled_and_the_diagnosis_names_it(tmp_path: Path) -> None:
    pod = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": _IMAGE}]},
    }
    async with whole_cluster(tmp_path) as client:
        await client.create(PODS, pod)
        found = await until(client, PODS, "default/p", _is_backing_off)
        events = (await client.session.get(EVENTS.path(namespace="default")))["items"]
        assert {event["reason"] for event in events if event["type"] == "Warning"} == {"Failed"}
        (finding,) = diagnose(
            evidence_of([{"kind": "Pod", **found}, *({"kind": "Event", **event} for event in events)])
        )
        assert finding.code.value == "IMAGE_NOT_FOUND"
        assert _IMAGE in finding.headline
