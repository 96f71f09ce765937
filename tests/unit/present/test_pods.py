"""The workloads that pods belong to."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.support.builders import a_pod
from tui.present.pods import PodOwner


@pytest.mark.parametrize(
    ("kind", "name", "owner", "is_owned"),
    [
        ("Deployment", "web", ("ReplicaSet", "web-7d4b9"), True),
        ("Deployment", "web", ("ReplicaSet", "web-api-7d4b9"), False),
        ("ReplicaSet", "web-7d4b9", ("ReplicaSet", "web-7d4b9"), True),
        ("CronJob", "nightly", ("Job", "nightly-29000000"), True),
        ("PyTorchJob", "train", ("PyTorchJob", "train"), True),
        ("StatefulSet", "web", ("DaemonSet", "web"), False),
    ],
)
def test_pods_belong_to_workloads(kind: str, name: str, owner: tuple[str, str], is_owned: bool) -> None:
    pod = replace(a_pod(), owner_kind=owner[0], owner_name=owner[1])
    assert PodOwner(kind, "default", name).owns(pod, {}) is is_owned
    assert not PodOwner(kind, "other", name).owns(pod, {})
