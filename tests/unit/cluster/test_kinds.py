"""The table of kinds, against what clusters and operators' CRDs really serve."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from actions.cluster.kinds import (
    JOBS,
    KINDS,
    KubeKind,
    find_kind,
    find_word,
    is_namespaced,
    kind_of,
    wait_for,
)
from actions.cluster.objects.status_rules import WorkState, object_status
from actions.sandbox.apiserver.storage.resources import builtin_types, types_of
from actions.sandbox.controllers.bootstrap import karpenter_definitions
from tests.support.definitions import recorded_definitions

RELEASES = (
    "jobset-0.12.0",
    "kubeflow-trainer-2.3.0",
    "kuberay-1.1.1",
    "mpi-operator-0.8.0",
    "training-operator-1.8.1-pytorchjobs",
    "volcano-1.15.1",
)
RECORDED_ELSEWHERE = {"v1": "MPIJob of the training-operator", "v1beta1": "Karpenter 0.32"}
"""Versions that the recorded release of an operator does not serve, but another one."""


class _Served(NamedTuple):
    plural: str
    is_namespaced: bool
    short_names: frozenset[str]
    versions: frozenset[str]


def _served() -> Iterator[tuple[tuple[str, str], _Served]]:
    definitions = [crd for release in RELEASES for crd in recorded_definitions(release)]
    types = [*builtin_types(), *(one for crd in (*definitions, *karpenter_definitions()) for one in types_of(crd))]
    for key in {(one.group, one.kind) for one in types}:
        same = [one for one in types if (one.group, one.kind) == key]
        versions = frozenset(one.version for one in same)
        yield key, _Served(same[0].plural, same[0].namespaced, frozenset(same[0].short_names), versions)


SERVED = dict(_served())


def _id(row: KubeKind) -> str:
    return f"{row.kind}.{row.group}"


RECORDED = [row for row in KINDS if (row.group, row.kind) in SERVED]


@pytest.mark.parametrize("row", RECORDED, ids=_id)
def test_a_row_says_what_discovery_says(row: KubeKind) -> None:
    served = SERVED[row.group, row.kind]
    assert (row.plural, row.is_namespaced) == (served.plural, served.is_namespaced)
    assert frozenset(row.short_names) == served.short_names
    assert row.versions[0] in served.versions
    assert set(row.versions) - served.versions <= RECORDED_ELSEWHERE.keys()


def test_only_rows_without_a_recording_are_taken_on_trust() -> None:
    trusted = {row.kind for row in KINDS if row not in RECORDED}
    assert trusted == {
        "TFJob",
        "LeaderWorkerSet",
        "HyperPodPyTorchJob",
        "Workload",
        "LocalQueue",
        "ClusterQueue",
        "Cohort",
        "ResourceSlice",
        "ResourceClaim",
        "APIService",
    }


def test_no_two_rows_mean_the_same() -> None:
    assert len({(row.group, row.kind) for row in KINDS}) == len(KINDS)
    words = [word for row in KINDS for word in (row.kind.lower(), *row.short_names)]
    assert {word for word in words if words.count(word) > 1} == {"job"}  # batch's, and Volcano's by its group alone
    assert len({row.name for row in KINDS}) == len(KINDS)


@pytest.mark.parametrize("row", JOBS, ids=_id)
def test_every_job_is_judged_by_a_rule_of_its_kind(row: KubeKind) -> None:
    for version in row.api_versions:
        found = object_status({"apiVersion": version, "kind": row.kind, "metadata": {"name": "x"}})
        assert found.state is not WorkState.UNKNOWN


def test_kinds_are_found_by_what_people_and_kubectl_write() -> None:
    assert find_word("PVC") is kind_of("PersistentVolumeClaim")
    assert find_word("jobset") is kind_of("JobSet")
    assert find_word("job.batch") is kind_of("Job")
    assert find_word("vcjob") is find_word("job.batch.volcano.sh") is find_kind("Job", "batch.volcano.sh")
    assert find_word("pod.batch") is None
    assert find_word("pods") is None


def test_scope_and_wait_are_those_of_the_group() -> None:
    assert not is_namespaced("scheduling.volcano.sh/v1beta1", "Queue")
    assert is_namespaced("example.com/v1", "Widget")
    assert wait_for("batch/v1", "Job") == "condition=Complete"
    assert wait_for("example.com/v1", "Widget") == "condition=Ready"


def test_list_paths_are_those_of_the_api() -> None:
    assert kind_of("Pod").list_path() == "/api/v1/pods"
    assert kind_of("MPIJob").list_path("ml") == "/apis/kubeflow.org/v2beta1/namespaces/ml/mpijobs"
