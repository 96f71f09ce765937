"""A user with one namespace: a Role with all rights on core, batch, apps and the operators' kinds there, and no others.

On the sandbox, and on the real API server where there is one: identity, doctor, plan, form, launch, watch, `why`, park
and resume, the console, takeover, teardown, audit.
"""

from __future__ import annotations

import asyncio
import copy
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from actions.base.clock import SystemClock
from actions.base.files import write_private
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.parameters import bind
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession, are_one_cluster
from actions.cluster.objects.client import Discovery, ObjectRef, delete, list_objects
from actions.run.checks.external import SessionPool
from actions.run.checks.observation import Observation
from actions.run.client import load_run
from actions.run.context.access import ClusterConnection
from actions.run.doctor.cluster import check_launch_rights
from actions.run.doctor.launch import PlannedLaunch
from actions.run.doctor.survey import LaunchSurvey
from actions.run.state.records import CheckResult
from actions.run.state.view import OVER, RunState, RunView
from tests.support.applying import apply_all
from tests.support.polling import wait
from tests.support.program import Program
from tui.cli.arguments import parser
from tui.cli.manual import completion

RBAC = "rbac.authorization.k8s.io"
GROUPS = ["", "batch", "apps", "kubeflow.org", "ray.io", "scheduling.volcano.sh", "coordination.k8s.io"]
RULES: list[dict[str, Any]] = [{"apiGroups": GROUPS, "resources": ["*"], "verbs": ["*"]}]
PREFERENCE = "scheduling.k8s.io/v1"
SECONDS = 240.0


@dataclass(frozen=True)
class Alone:
    """A user with one namespace, and the cluster's administrator."""

    admin: Path
    kubeconfig: Path
    """Of the user."""
    namespace: str
    user: str
    program: Program
    other: Program
    """Another machine of the user."""

    def do(self, *words: str, other: bool = False) -> Any:
        """Carry out a command as the user."""
        program = self.other if other else self.program
        where = ("--kubeconfig", str(self.kubeconfig), "-n", self.namespace)
        return program.command(*where, "--blueprints", str(program.home), *words)

    def launched(self, name: str, *words: str) -> Path:
        """The folder of a run that has just begun."""
        done = self.do("launch", name, "--existing-cluster", "--yes", *words)
        assert done.returncode == 0, done.stderr
        run: str = done.stdout.strip()
        return self.program.state / "runs" / run


def over(folder: Path) -> RunView:
    """The run, once it has come to an end."""
    wait(lambda: load_run(folder).state in OVER, "the end of the run", deadline_seconds=SECONDS)
    return load_run(folder)


def torn_down(alone: Alone, folder: Path) -> RunView:
    """The run, once its teardown has ended."""
    done = alone.do("runs", "teardown", folder.name, "--confirm", load_run(folder).cluster.name)
    assert done.returncode == 0, done.stderr
    wait(lambda: load_run(folder).state is RunState.TORN_DOWN, "the teardown", deadline_seconds=SECONDS)
    return load_run(folder)


def kubeconfig_as(folder: Path, admin: Path, user: str, namespace: str) -> Path:
    """The administrator's kubeconfig, with which requests are those of somebody else."""
    document = yaml.safe_load(admin.read_bytes())
    document["users"][0]["user"]["as"] = user
    document["contexts"][0]["context"]["namespace"] = namespace
    write_private(folder / "kubeconfig", yaml.safe_dump(document).encode())
    return folder / "kubeconfig"


def role_of(user: str, namespace: str, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A role and its binding; for the whole cluster without a namespace."""
    kind = "Role" if namespace else "ClusterRole"
    metadata = {"name": user} | ({"namespace": namespace} if namespace else {})
    head: dict[str, Any] = {"apiVersion": f"{RBAC}/v1", "metadata": metadata}
    reference = {"apiGroup": RBAC, "kind": kind, "name": user}
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": user}]
    binding = {"kind": f"{kind}Binding", "roleRef": reference, "subjects": subjects}
    return [head | {"kind": kind, "rules": rules}, head | binding]


@asynccontextmanager
async def as_of(kubeconfig: Path) -> AsyncIterator[ClusterConnection]:
    session = await KubeSession.connect(ClusterTarget(kubeconfig))
    try:
        yield ClusterConnection(session, Discovery(session))
    finally:
        await session.aclose()


async def put(kubeconfig: Path, *manifests: dict[str, Any]) -> None:
    async with as_of(kubeconfig) as connection:
        await apply_all(connection.session, connection.discovery, list(manifests))


async def taken(kubeconfig: Path, *refs: ObjectRef) -> None:
    async with as_of(kubeconfig) as connection:
        for ref in refs:
            await delete(connection.session, connection.discovery, ref)


def a_job(name: str, command: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    image = "public.ecr.aws/docker/library/busybox:1.36"
    container = {"name": "main", "image": image, "command": ["sh", "-c", command], "resources": resources}
    pod = {"restartPolicy": "Never", "containers": [container]}
    spec = {"backoffLimit": 0, "template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def write_blueprint(home: Path, name: str, command: str, *stages: dict[str, Any]) -> Path:
    """A blueprint of one Job, after other stages."""
    needs = ["access", *(one["id"] for one in stages)]
    target = {"api_version": "batch/v1", "kind": "Job", "name": name}
    watch = {"logs": {"pods": f"job-name={name}"}}
    document = {
        "schema": "eksml/v1",
        "id": name,
        "title": name,
        "summary": "One job.",
        "cluster": {"name": "any", "region": "us-west-2"},
        "stages": [
            {"id": "access", "kind": "kubeconfig", "title": "Access", "expect": "1s..9s", "cluster": "any"}
            | {"region": "us-west-2"},
            *stages,
            {"id": "train", "kind": "job", "title": "Training", "needs": needs, "expect": "1s..9s"}
            | {"manifests": ["job.yaml"], "target": target, "watch": watch},
        ],
    }
    folder = home / name
    folder.mkdir(exist_ok=True)
    write_private(folder / "blueprint.yaml", yaml.safe_dump(document, sort_keys=False).encode())
    write_private(folder / "job.yaml", yaml.safe_dump(a_job(name, command)).encode())
    return folder


@pytest.fixture(scope="module")
def alone(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone]:
    folder = tmp_path_factory.mktemp("alone")
    namespace = user = f"team-{secrets.token_hex(3)}"
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    asyncio.run(put(kubeconfig, space, *role_of(user, namespace, RULES)))
    homes = [Program(tmp_path_factory.mktemp(name)) for name in ("machine", "other")]
    for program in homes:
        write_blueprint(program.home, "short", "echo step 1 loss 2.5 && echo step 2 loss 1.9")
        write_blueprint(program.home, "long", "echo step 1 loss 2.5 && sleep 360000")
    path = kubeconfig_as(folder, kubeconfig, user, namespace)
    yield Alone(kubeconfig, path, namespace, user, *homes)
    for program in homes:
        program.end_all()
    asyncio.run(taken(kubeconfig, ObjectRef("v1", "Namespace", "", namespace)))


async def test_it_is_the_cluster_that_the_administrator_sees(alone: Alone) -> None:
    async with as_of(alone.admin) as admin, as_of(alone.kubeconfig) as user:
        known, found = await admin.session.cluster_uid(), await user.session.cluster_uid()
    assert found.startswith(" ")
    assert not known.startswith(" ")
    assert are_one_cluster(known, found)
    assert are_one_cluster(found, known)
    assert not are_one_cluster(f"another{known[known.index(' ') :]}", known)
    assert not are_one_cluster(found, " another-digest")


def lines_of(text: str) -> dict[str, dict[str, Any]]:
    return {one["check"]: one for one in json.loads(text)["checks"]}


def test_the_doctor_passes_and_asks_for_rights_of_the_launch_s_own_kinds_alone(alone: Alone) -> None:
    done = alone.do("doctor", "short", "--existing-cluster", "-o", "json")
    lines = lines_of(done.stdout)
    assert done.returncode == 0, done.stdout
    assert lines["rights to launch"]["detail"] == f"Granted: 5 rights in {alone.namespace}."
    assert lines["rights to tear down"]["detail"] == f"Granted: 1 right in {alone.namespace}."
    assert {name for name, one in lines.items() if one["result"] == "unknown"} == {"room for the pods"}
    planned = json.loads(alone.do("plan", "short", "--existing-cluster", "-o", "json").stdout)
    assert [one["check"] for one in planned["checks"] if one["result"] == "fail"] == []


async def test_a_quota_of_the_namespace_is_looked_at_though_nodes_may_not_be_read(alone: Alone) -> None:
    head = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": alone.namespace}}
    await put(alone.admin, head | {"spec": {"hard": {"pods": "0"}}})
    try:
        found = lines_of(alone.do("doctor", "short", "--existing-cluster", "-o", "json").stdout)["room for the pods"]
    finally:
        await taken(alone.admin, ObjectRef("v1", "ResourceQuota", alone.namespace, "few"))
    assert (found["result"], found["detail"]) == ("fail", "The ResourceQuota few allows pods 0: 1 is asked for.")


def test_a_line_is_completed_by_what_may_be_listed(alone: Alone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "_CLUSTER_SECONDS", 60.0)
    job = a_job("held", "true")
    job["metadata"]["namespace"] = alone.namespace
    asyncio.run(put(alone.admin, job | {"spec": job["spec"] | {"suspend": True}}))
    line = parser().parse_args(["--kubeconfig", str(alone.kubeconfig), "watch", "job/x"])
    assert "job/held" in completion._in_cluster(line, "JOB")
    assert completion._in_cluster(line, "namespace") == []
    by_admin = parser().parse_args(["--kubeconfig", str(alone.admin), "nodes"])
    assert alone.namespace in completion._in_cluster(by_admin, "namespace")


async def rights_of(kubeconfig: Path, home: Path, *, is_teardown: bool = False) -> Observation:
    blueprint = load_blueprint(home / "short")
    binding = bind(blueprint, {}, existing_cluster=True)
    async with as_of(kubeconfig) as connection:
        namespace = connection.session.namespace
        launch = PlannedLaunch(blueprint=blueprint, binding=binding, wanted_namespace=namespace)
        return await check_launch_rights(connection, launch, is_teardown=is_teardown)


@pytest.mark.parametrize(
    ("group", "resource", "verb"),
    [
        ("batch", "jobs", "get"),
        ("batch", "jobs", "create"),
        ("batch", "jobs", "patch"),
        ("", "pods", "list"),
        ("", "pods/log", "get"),
        ("batch", "jobs", "delete"),
    ],
)
async def test_each_refused_verb_is_named(group: str, resource: str, verb: str, alone: Alone, tmp_path: Path) -> None:
    rules: dict[tuple[str, str], list[str]] = {
        ("batch", "jobs"): ["get", "create", "patch", "delete"],
        ("", "pods"): ["list"],
        ("", "pods/log"): ["get"],
    }
    rules[group, resource].remove(verb)
    given = [{"apiGroups": [key[0]], "resources": [key[1]], "verbs": verbs} for key, verbs in rules.items() if verbs]
    user = f"{alone.user}-{verb}-{resource.replace('/', '-')}"
    await put(alone.admin, *role_of(user, alone.namespace, given))
    path = kubeconfig_as(tmp_path, alone.admin, user, alone.namespace)
    found = await rights_of(path, alone.program.home, is_teardown=verb == "delete")
    named = f"{resource}.{group}" if group else resource
    assert found.result is CheckResult.FAILED
    assert found.detail == f"This user may not {verb} {named} in {alone.namespace}."
    assert f"--verb={verb} --resource={named} -n {alone.namespace}" in found.remedy


async def test_the_form_s_checks_refuse_nothing(alone: Alone) -> None:
    blueprint = load_blueprint(alone.program.home / "short")
    pool = SessionPool()
    target = ClusterTarget(alone.kubeconfig, namespace=alone.namespace)
    survey = LaunchSurvey(
        target, blueprint, bind(blueprint, {}, existing_cluster=True), clock=SystemClock(), pool=pool,
        runs=alone.program.state / "runs",
    )  # fmt: skip
    try:
        await survey.run(seconds=SECONDS)
    finally:
        pool.close()
    assert [line for line in survey.lines if line.result is CheckResult.FAILED] == []


def test_a_run_is_launched_watched_and_removed_and_nothing_of_others(alone: Alone) -> None:
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs", "namespace": alone.namespace}}
    asyncio.run(put(alone.admin, theirs))
    folder = alone.launched("short")
    view = over(folder)
    assert view.state is RunState.SUCCEEDED, [stage.message for stage in view.stages]
    watched = alone.do("watch", "job/short", "--plain")
    assert watched.returncode == 0, watched.stderr
    assert "step 2 loss 1.9" in watched.stdout
    explained = alone.do("why", "job/short")
    assert "Nothing is wrong in the pods, events, nodes and logs that may be read." in explained.stdout
    assert "You may not list" in explained.stderr
    view = torn_down(alone, folder)
    assert view.audit is not None
    assert view.audit.leftovers == ()
    outside, inside = sorted(view.audit.unknown, key=lambda line: " outside of " not in line)
    assert f" kinds outside of {alone.namespace}: " in outside
    assert f" more in {alone.namespace}." in inside

    async def left() -> list[str]:
        async with as_of(alone.admin) as admin:
            found = [
                one["metadata"]["name"]
                for version, kind in (("batch/v1", "Job"), ("v1", "Pod"), ("v1", "ConfigMap"))
                for one in await list_objects(admin.session, admin.discovery, version, kind, namespace=alone.namespace)
            ]
            # `held` is the job of the completion's test
            return [name for name in found if name != "kube-root-ca.crt" and not name.startswith("held")]

    assert asyncio.run(left()) == ["theirs"]


CONSOLE = """\
eksml-script: 1
steps:
  - watch: job/NAMESPACE/long
  - wait: {text: "step 1 loss 2.5", within: 1m}
  - open: pods
  - wait: {text: "long-", within: 1m}
  - open: nodes
  - wait: {text: "may not list nodes", within: 1m}
  - open: home
  - wait: {text: "may not list nodes", within: 1m}
"""


def test_a_run_is_parked_shown_in_the_console_resumed_and_taken_over(alone: Alone) -> None:
    folder = alone.launched("long")
    run = folder.name
    wait(lambda: load_run(folder).stage("train").message.startswith("1 of 1"), "its pod", deadline_seconds=SECONDS)
    script = alone.program.home / "console.yaml"
    script.write_text(CONSOLE.replace("NAMESPACE", alone.namespace))
    played = alone.do("--script", str(script))
    assert played.returncode == 0, played.stdout + played.stderr
    assert alone.do("runs", "park", run).returncode == 0
    wait(lambda: load_run(folder).state is RunState.PARKED, "parked", deadline_seconds=SECONDS)
    resumed = alone.do("runs", "resume", run, "--yes")
    assert resumed.returncode == 0, resumed.stderr
    wait(lambda: load_run(folder).stage("train").message.startswith("1 of 1"), "its pod", deadline_seconds=SECONDS)
    alone.program.end_all()  # the machine is gone
    took = alone.do("runs", "takeover", run, "--from", "cluster", "--confirm", run, "--machine-is-gone", other=True)
    assert took.returncode == 0, took.stderr
    there = alone.other.state / "runs" / run
    done = alone.do("runs", "teardown", run, "--confirm", load_run(there).cluster.name, other=True)
    assert done.returncode == 0, done.stderr
    wait(lambda: load_run(there).state is RunState.TORN_DOWN, "the teardown", deadline_seconds=SECONDS)
    view = load_run(there)
    assert view.audit is not None
    assert view.audit.leftovers == ()


def test_an_audit_has_a_line_for_each_reason(alone: Alone) -> None:
    done = alone.do("audit")
    assert done.returncode == 1
    unknown = [line for line in done.stdout.splitlines() if line.startswith("Unknown: This user")]
    assert len(unknown) == 2, done.stdout
    assert f" kinds outside of {alone.namespace}: " in unknown[0]


def test_a_machine_is_not_ill_whose_user_has_one_namespace(alone: Alone) -> None:
    lines = lines_of(alone.do("doctor", "-o", "json").stdout)
    rights = lines["rights"]
    assert rights["result"] == "pass"
    assert alone.namespace in rights["detail"]
    assert not any(name.startswith("rights of eksml") for name in lines)


def preference_stage(name: str) -> dict[str, Any]:
    """A stage with an object outside of namespaces, which is used as it is where it is there."""
    detect = {"api_version": PREFERENCE, "kind": "PriorityClass", "name": name}
    stage = {"id": "first", "kind": "manifests", "title": "First", "needs": ["access"], "expect": "1s..9s"}
    return stage | {"manifests": ["first.yaml"], "detect": detect, "ready": [dict(detect)]}


@pytest.mark.parametrize("is_detected", [True, False], ids=["detected", "applied"])
def test_what_may_be_neither_read_nor_made_is_taken_for_there(is_detected: bool, alone: Alone) -> None:
    name = f"{alone.user}-{'detected' if is_detected else 'applied'}"
    stage = copy.deepcopy(preference_stage(name))
    if not is_detected:
        del stage["detect"]
    folder = write_blueprint(alone.program.home, name, "echo done", stage)
    preference = {"apiVersion": PREFERENCE, "kind": "PriorityClass", "metadata": {"name": name}, "value": 1}
    write_private(folder / "first.yaml", yaml.safe_dump(preference).encode())
    asked = lines_of(alone.do("doctor", name, "--existing-cluster", "-o", "json").stdout)
    assert [one for one in asked.values() if one["result"] == "fail"] == []
    unknown = asked["rights to launch"]
    assert unknown["result"] == "unknown"
    assert f"neither read nor make it: priorityclasses.scheduling.k8s.io {name}." in unknown["detail"]
    assert f"--verb=get --resource=priorityclasses.scheduling.k8s.io --resource-name={name}" in unknown["remedy"]
    ran = alone.launched(name)
    view = over(ran)
    assert view.state is RunState.SUCCEEDED, [stage.message for stage in view.stages]
    (finding,) = view.stage("first").findings
    assert finding.result is CheckResult.UNKNOWN
    assert torn_down(alone, ran).audit is not None

    read = [{"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "resourceNames": [name]}]
    asyncio.run(put(alone.admin, *role_of(name, "", [read[0] | {"verbs": ["get"]}])))
    path = kubeconfig_as(alone.program.home, alone.admin, alone.user, alone.namespace)
    bound = role_of(name, "", [])[1]
    bound["subjects"][0]["name"] = alone.user
    asyncio.run(put(alone.admin, bound))
    absent = lines_of(alone.do("doctor", name, "--existing-cluster", "-o", "json").stdout)["rights to launch"]
    assert absent["result"] == "fail", "it is certainly not there, and this user may not make it"
    assert "create, patch priorityclasses.scheduling.k8s.io in the whole cluster" in absent["detail"]
    asyncio.run(put(alone.admin, preference))
    there = lines_of(alone.do("doctor", name, "--existing-cluster", "-o", "json").stdout)["rights to launch"]
    assert there["result"] == "pass"
    ran = alone.launched(name)
    assert over(ran).state is RunState.SUCCEEDED
    torn_down(alone, ran)
    refs = [ObjectRef(PREFERENCE, "PriorityClass", "", name)]
    refs += [ObjectRef(f"{RBAC}/v1", kind, "", name) for kind in ("ClusterRoleBinding", "ClusterRole")]
    asyncio.run(taken(alone.admin, *refs))
    assert path.is_file()
