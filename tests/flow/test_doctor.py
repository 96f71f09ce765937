"""`eksml-tui doctor` on the sandbox: as an operator starts it, and with each right of the shipped roles taken away."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from actions.base.files import asset
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.apply import apply
from actions.cluster.objects.client import Discovery, ObjectRef, delete
from actions.run.checks.observation import Observation
from actions.run.context.access import ClusterConnection
from actions.run.doctor.cluster import (
    Right,
    check_objects,
    missing_rights,
    recommended_rights,
)
from actions.run.doctor.launch import PlannedLaunch
from actions.run.state.records import CheckResult, Operator
from actions.run.store.kubernetes import KubernetesStore
from actions.run.store.lease import take_lease
from tests.support.program import Program
from tests.unit.run.test_doctor import a_launch

API = "rbac.authorization.k8s.io"
ROLES = {one["metadata"]["name"]: one for one in yaml.safe_load_all(asset("rbac.yaml").read_text(encoding="utf-8"))}
IN_ONE_NAMESPACE = frozenset({"eksml-launch", "eksml-shell"})
"""The roles that are bound in namespaces."""
SEEN_SECONDS = 60.0
"""A real API server learns of a changed role by a watch."""


@pytest.fixture
def admin(session: KubeSession) -> ClusterConnection:
    return ClusterConnection(session, Discovery(session))


async def a_user(kubeconfig: Path, tmp_path: Path, name: str) -> KubeSession:
    """A session of somebody without the administrator's rights."""
    document = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    document["users"][0]["user"]["as"] = name
    path = tmp_path / "as.json"
    path.write_text(json.dumps(document))
    return await KubeSession.connect(ClusterTarget(path))


async def bind(admin: ClusterConnection, role: str, user: str, rules: list[dict[str, Any]]) -> None:
    """Give a user these rules as a copy of the role, where the role is bound."""
    metadata: dict[str, Any] = {"name": f"{user}-{role}"}
    scope = "RoleBinding" if role in IN_ONE_NAMESPACE else "ClusterRoleBinding"
    reference = {"apiGroup": API, "kind": "ClusterRole", "name": metadata["name"]}
    subjects = [{"apiGroup": API, "kind": "User", "name": user}]
    kept = [rule for rule in rules if rule["verbs"]]
    await apply(
        admin.session,
        admin.discovery,
        {"apiVersion": f"{API}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": kept},
        force=True,
    )
    where = {"namespace": "default"} if scope == "RoleBinding" else {}
    binding = {"apiVersion": f"{API}/v1", "kind": scope, "metadata": {**metadata, **where}, "roleRef": reference}
    await apply(admin.session, admin.discovery, {**binding, "subjects": subjects}, force=True)


async def missing_in_time(session: KubeSession, role: str, expected: set[Right]) -> set[Right]:
    """The missing rights, once they are those that are expected, or at the end of the time for that."""
    namespace = "default" if role in IN_ONE_NAMESPACE else ""
    found: set[Right] = set()
    try:
        async with asyncio.timeout(SEEN_SECONDS):
            while True:
                missing, unasked = await missing_rights(session, recommended_rights(role), namespace)
                assert unasked == []
                found = set(missing)
                if found == expected:
                    return found
    except TimeoutError:
        return found


def rights_of(rule: dict[str, Any], verbs: Iterable[str]) -> Iterator[Right]:
    """The rights that a rule grants with these verbs."""
    return (Right(name, verb, group) for verb in verbs for group in rule["apiGroups"] for name in rule["resources"])


@pytest.mark.parametrize("role", ["eksml-look", "eksml-launch", "eksml-prepare", "eksml-teardown", "eksml-shell"])
async def test_each_verb_that_is_taken_from_a_role_is_named(
    role: str, kubeconfig: Path, admin: ClusterConnection, tmp_path: Path
) -> None:
    """One verb of each rule at a time, as every right of the role is asked for each time."""
    rules: list[dict[str, Any]] = ROLES[role]["rules"]
    session = await a_user(kubeconfig, tmp_path, f"doctor-{role}")
    try:
        await bind(admin, role, f"doctor-{role}", rules)
        assert await missing_in_time(session, role, set()) == set()
        for turn in range(max(len(rule["verbs"]) for rule in rules)):
            fewer, taken = copy.deepcopy(rules), set[Right]()
            for rule in fewer:
                for verb in rule["verbs"][turn : turn + 1]:
                    rule["verbs"].remove(verb)
                    taken |= set(rights_of(rule, [verb]))
            granted = {right for rule in fewer for right in rights_of(rule, rule["verbs"])}
            # what another rule of the role grants as well is not missing
            expected = {right for right in taken - granted if Right("*", right.verb, "*") not in granted}
            await bind(admin, role, f"doctor-{role}", fewer)
            assert await missing_in_time(session, role, expected) == expected
            assert expected or turn
    finally:
        await session.aclose()


async def test_an_object_of_another_run_and_an_older_job_are_in_the_way(admin: ClusterConnection) -> None:
    launch: PlannedLaunch = a_launch("bionemo-esm1nv", preset="rehearsal", existing_cluster=True, data="sample")

    async def found() -> Observation:
        return await check_objects(admin, launch)

    assert (await found()).result is CheckResult.PASSED
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "uniref50-sample", "namespace": "default"},
        "spec": {
            "suspend": True,
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/a"}]}
            },
        },
    }
    ref = ObjectRef("batch/v1", "Job", "default", "uniref50-sample")
    owner = Operator("anna", "bastion-1")
    await take_lease(KubernetesStore(admin.session), "other-run", owner, after=None)
    for labels, word in (
        ({}, "exists already"),
        ({"eksml.dev/run": "other-run"}, "the run other-run of anna@bastion-1."),
        ({"eksml.dev/run": "unknown-run"}, "the run unknown-run."),
    ):
        await apply(
            admin.session,
            admin.discovery,
            {**job, "metadata": {**job["metadata"], "labels": labels}},  # type: ignore[dict-item]
        )
        observation = await found()
        assert observation.result is CheckResult.FAILED
        assert word in observation.detail
        await delete(admin.session, admin.discovery, ref)
        async with asyncio.timeout(SEEN_SECONDS):
            while await admin.find(ref) is not None:
                pass


def test_the_command_reports_on_the_sandbox_and_on_an_empty_machine(program: Program) -> None:
    asked = program.run("--demo", "doctor", "bionemo-esm1nv", "--preset", "rehearsal", "--existing-cluster")
    assert asked.returncode == 0, asked.stdout + asked.stderr
    assert "rights to tear down" in asked.stdout
    document = json.loads(program.command("doctor", "-o", "json").stdout)
    by_name = {line["check"]: line for line in document["checks"]}
    assert document["passed"] is False
    assert by_name["credentials"]["result"] == "fail"
    assert by_name["cluster"]["result"] == "unknown"
    assert all(line["remedy"] for line in document["checks"] if line["result"] != "pass")
    empty = program.command("doctor", "efa-nccl-tests")
    assert empty.returncode == 1
    assert "→" in empty.stdout


def test_a_cluster_without_the_accelerators_of_a_launch_is_told_before_anything_is_made(program: Program) -> None:
    given = ("image_source=given", "image=registry.example/nemo:1")
    asked = program.command(
        "--demo", "doctor", "nemo-gpt3-5b", "--preset", "rehearsal", "--existing-cluster", *given, "-o", "json"
    )
    by_name = {line["check"]: line for line in json.loads(asked.stdout)["checks"]}
    assert asked.returncode == 1
    for title in ("GPUs", "EFA interfaces", "huge pages"):
        assert by_name[title]["result"] == "fail"
        assert by_name[title]["detail"] == "No node matches, 2 required."
        assert by_name[title]["remedy"]
    assert by_name["core nodes ready"]["result"] == "pass"


def test_parameters_need_a_blueprint_and_a_wrong_one_is_refused_as_by_plan(program: Program) -> None:
    assert program.command("doctor", "--preset", "short").returncode == 2
    wrong = program.command("doctor", "efa-nccl-tests", "nodes=many")
    planned = program.command("plan", "efa-nccl-tests", "nodes=many")
    assert (wrong.returncode, wrong.stdout, wrong.stderr) == (planned.returncode, "", planned.stderr)
    assert "nodes" in wrong.stderr
