"""A dry run before a launch, as a real API server's admission answers: quota, Pod Security, webhook, classes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from actions.base.errors import AccessError, MissingError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.client import Discovery, ObjectRef, delete
from actions.run.checks.observation import Observation
from actions.run.context.access import ClusterConnection
from actions.run.doctor.objects import check_dry_run, check_namespace
from actions.run.state.records import CheckResult
from tests.flow.test_asked_first import a_job, a_launch
from tests.realcluster.running import real_cluster

HOME = "asked-first"
SEEN_SECONDS = 60.0
"""Admission learns of a changed namespace, quota or webhook by a watch."""
HOOK = "asked-first.example.com"


@pytest.fixture
async def connection() -> AsyncIterator[ClusterConnection]:
    """The administrator's, with a namespace of the test's own."""
    session = await KubeSession.connect(ClusterTarget(Path(real_cluster().kubeconfig)))
    connection = ClusterConnection(session, Discovery(session))
    await connection.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}})
    try:
        yield connection
    finally:
        for ref in (
            ObjectRef("v1", "Namespace", "", HOME),
            ObjectRef("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", HOOK),
        ):
            await delete(session, connection.discovery, ref)
        async with asyncio.timeout(SEEN_SECONDS):
            while await connection.find(ObjectRef("v1", "Namespace", "", HOME)) is not None:
                pass
        await session.aclose()


async def answer(connection: ClusterConnection, folder: Path, said: str, job: dict[str, Any]) -> Observation:
    """The answer of the dry run, once it has the words, or at the end of the time for that."""
    launch, found = a_launch(folder, job, namespace=HOME), Observation(CheckResult.UNKNOWN, "")
    try:
        async with asyncio.timeout(SEEN_SECONDS):
            while said not in found.detail:
                found = await check_dry_run(connection, launch)
    except TimeoutError:
        pass
    return found


def quota(**hard: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": HOME},
        "spec": {"hard": {name.replace("_", "."): amount for name, amount in hard.items()}},
    }


STRICT = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": HOME, "labels": {"pod-security.kubernetes.io/enforce": "baseline"}},
}


def a_hook(side_effects: str) -> dict[str, Any]:
    """A webhook for pods of the namespace, which does not answer."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": HOOK},
        "webhooks": [
            {
                "name": HOOK,
                "clientConfig": {"url": "https://127.0.0.1:9/"},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": HOME}},
                "failurePolicy": "Fail",
                "sideEffects": side_effects,
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 1,
            }
        ],
    }


@pytest.mark.parametrize(
    ("made", "job", "expected"),
    [
        (None, a_job(), (CheckResult.PASSED, "The cluster takes 2 objects, the pods included.")),
        (
            None,
            a_job(priorityClassName="no-such"),
            (CheckResult.FAILED, "no PriorityClass with name no-such was found"),
        ),
        (None, a_job(serviceAccountName="no-such"), (CheckResult.FAILED, 'serviceaccount "no-such" not found')),
        (quota(pods="0"), a_job(), (CheckResult.FAILED, "exceeded quota: few, requested: pods=1, used: pods=0")),
        (quota(requests_cpu="1"), a_job(), (CheckResult.FAILED, "failed quota: few: must specify requests.cpu")),
        (STRICT, a_job(hostNetwork=True), (CheckResult.FAILED, 'violates PodSecurity "baseline:latest"')),
        (a_hook("None"), a_job(), (CheckResult.UNKNOWN, "failed calling webhook")),
        (a_hook("NoneOnDryRun"), a_job(), (CheckResult.UNKNOWN, "failed calling webhook")),
    ],
    ids=[
        "taken",
        "priority class",
        "service account",
        "quota",
        "quota on requests",
        "Pod Security",
        "webhook",
        "again",
    ],
)
async def test_what_admission_would_refuse_is_known_before_a_run(
    made: dict[str, Any] | None,
    job: dict[str, Any],
    expected: tuple[CheckResult, str],
    connection: ClusterConnection,
    tmp_path: Path,
) -> None:
    if made is not None:
        await connection.apply(made)
    found = await answer(connection, tmp_path, expected[1], job)
    assert expected[1] in found.detail
    assert found.result is expected[0]
    with pytest.raises(MissingError):
        await connection.fetch(ObjectRef("batch/v1", "Job", HOME, "asked-first"))


async def test_without_rights_it_is_not_known(tmp_path: Path) -> None:
    session = await KubeSession.connect(ClusterTarget(Path(real_cluster().nobody)))
    try:
        nobody = ClusterConnection(session, Discovery(session))
        launch = a_launch(tmp_path, a_job())
        found = await check_dry_run(nobody, launch)
        assert found.result is CheckResult.UNKNOWN
        assert 'User "nobody" cannot create resource "jobs"' in found.detail
        with pytest.raises(AccessError, match='cannot get resource "namespaces"'):
            await check_namespace(nobody, launch)
    finally:
        await session.aclose()
