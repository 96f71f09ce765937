"""The watchdog's objects, and its program over an API server of the test."""

from __future__ import annotations

import io
import json
import urllib.error
from argparse import Namespace
from datetime import UTC, datetime, timedelta
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import AccessError, ConfigError, ConsoleError, UnreachableError
from actions.base.files import asset
from actions.base.own_images import PYTHON, REGISTRY_VARIABLE, own_image
from actions.base.process import own_identity
from actions.run.context.stage_context import CLUSTER_UID, StageContext
from actions.run.journal.lease import Heartbeat, read_heartbeat
from actions.run.journal.reader import RunMonitor
from actions.run.journal.runner_journal import RunnerJournal
from actions.run.journal.store import Lease
from actions.run.launch import kept_environment
from actions.run.report import run_table
from actions.run.results import copying
from actions.run.state.fold import fold
from actions.run.state.records import Action, Body, Intent, JournalRecord, Limits, Outcome, Owned, Result
from actions.run.state.view import Notice, NoticeKind, RunView
from actions.run.store.lease_object import DOCUMENT, STOPPED_NOTE
from actions.run.volume import commands
from actions.run.watchdog.keeper import WatchdogKeeper, idle_reason
from actions.run.watchdog.manifests import config_of, manifests_of, watchdog_name, watched_objects
from actions.run.watchdog.script import LEASE, NOTE, Api, watch
from tests.unit.blueprint.test_accepted import complaints_about
from tests.unit.run.world import creation
from tui.cli.run_verbs.limits import watchdog_lines

NOW = datetime(2026, 11, 20, 22, 0, tzinfo=UTC)
RUN = "efa-nccl-tests-1120-7clq5bfkflkl6"
STORE = "eksml-tui"
PLACE = f"/apis/coordination.k8s.io/v1/namespaces/{STORE}/leases/eksml-run-{RUN}"
JOB = "/apis/batch/v1/namespaces/training/jobs/train"
POD = "/api/v1/namespaces/training/pods/shell"


class FakeApi(Api):
    """An API server of objects by path, which keeps what is changed."""

    def __init__(self, objects: dict[str, dict[str, Any]]) -> None:
        self.objects = objects
        self.calls: list[tuple[str, str]] = []
        self.refuses: set[str] = set()

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        place = path.partition("?")[0]
        self.calls.append((method, place))
        if method == "POST":
            return {}
        if place not in self.objects:
            raise urllib.error.HTTPError(place, 404, "not found", Message(), io.BytesIO())
        if method != "GET" and place in self.refuses:
            raise urllib.error.HTTPError(place, 403, "forbidden", Message(), io.BytesIO())
        if method == "DELETE":
            return self.objects.pop(place)
        for part, values in (body or {}).items():
            self.objects[place].setdefault(part, {}).update(values)
        return self.objects[place]

    @property
    def changes(self) -> list[tuple[str, str]]:
        return [call for call in self.calls if call[0] != "GET"]


def record(minutes: float, *, state: str = "running", written: float | None = None) -> dict[str, Any]:
    beat = NOW - timedelta(minutes=minutes)
    document = json.dumps({"status": {"state": state}})
    time = NOW - timedelta(minutes=minutes if written is None else written)
    fields = [{"manager": "eksml-tui-runner", "time": f"{time:%Y-%m-%dT%H:%M:%SZ}"}]
    return {
        "metadata": {"managedFields": fields, "annotations": {LEASE: document}},
        "spec": {"renewTime": f"{beat:%Y-%m-%dT%H:%M:%S}.000000Z"},
    }


def config(*targets: dict[str, Any]) -> dict[str, Any]:
    return {"run": RUN, "minutes": 60, "lease": PLACE, "targets": list(targets)}


SUSPENDED = {"path": JOB, "name": "Job/training/train", "uid": "u1", "patch": {"spec": {"suspend": True}}}
DELETED = {"path": POD, "name": "Pod/training/shell", "uid": "u2", "patch": None}


def world(minutes: float = 61, **more: Any) -> FakeApi:
    return FakeApi(
        {
            PLACE: record(minutes, **more),
            JOB: {"metadata": {"uid": "u1"}, "spec": {}},
            POD: {"metadata": {"uid": "u2"}},
        }
    )


def test_it_knows_the_annotations_by_the_same_names() -> None:
    assert (LEASE, NOTE) == (DOCUMENT, STOPPED_NOTE)


def test_a_silent_run_loses_its_jobs_and_gets_the_reason() -> None:
    api = world()
    said = watch(api, config(SUSPENDED, DELETED), NOW)
    assert api.objects[JOB]["spec"] == {"suspend": True}
    assert POD not in api.objects
    note = api.objects[PLACE]["metadata"]["annotations"][NOTE]
    assert note == said
    assert "61 min old, 60 min are allowed: suspended Job/training/train, deleted Pod/training/shell." in note


def test_a_job_of_volcano_is_stopped_by_a_command_about_its_uid() -> None:
    (target,) = config_of(view := a_view(MADE[4]), watched_objects(view), STORE)["targets"]
    path, command = target["command"]
    job = {"metadata": {"uid": target["uid"]}, "status": {"state": {"phase": "Running"}}}
    api = FakeApi({PLACE: record(91), target["path"]: job})
    said = watch(api, config(target), NOW)
    assert path == "/apis/bus.volcano.sh/v1alpha1/namespaces/training/commands"
    assert api.changes == [("POST", path), ("PATCH", PLACE)]
    assert (command["action"], command["target"]["uid"]) == ("AbortJob", target["uid"])
    assert "suspended Job/training/gang" in said
    job["status"]["state"]["phase"], api.objects[PLACE] = "Aborting", record(91)
    assert "none of its jobs is at work" in watch(api, config(target), NOW)


@pytest.mark.parametrize(
    "api",
    [world(59), world(600, written=5), world(600, state="parked"), world(600, state="torn down"), FakeApi({}),
     FakeApi({PLACE: {**record(600), "metadata": {"annotations": {LEASE: "{"}}}}),
     FakeApi({PLACE: {**record(600), "spec": {"renewTime": "soon"}}}), FakeApi({PLACE: record(600) | {"metadata": {}}}),
     FakeApi({PLACE: {}})],
)  # fmt: skip
def test_whoever_shows_a_sign_or_is_not_known_is_left_alone(api: FakeApi) -> None:
    assert "nothing was done" in watch(api, config(SUSPENDED), NOW)
    assert api.changes == []


@pytest.mark.parametrize(
    "job",
    [
        {"metadata": {"uid": "other"}},
        {"metadata": {"uid": "u1", "deletionTimestamp": "2026-11-20T21:00:00Z"}},
        {"metadata": {"uid": "u1"}, "spec": {"suspend": True}},
        {"metadata": {"uid": "u1"}, "spec": {"runPolicy": {"suspend": True}}},
        {"metadata": {"uid": "u1"}, "status": {"conditions": [{"type": "Complete", "status": "True"}]}},
        {"metadata": {"uid": "u1"}, "status": {"jobDeploymentStatus": "Complete"}},
        {"metadata": {"uid": "u1"}, "status": {"state": {"phase": "Completed"}}},
        {"metadata": {"uid": "u1"}, "spec": {"replicas": 0}},
    ],
)
def test_another_object_and_one_that_has_ended_are_left_alone(job: dict[str, Any]) -> None:
    api = FakeApi({PLACE: record(120), JOB: job})
    assert "none of its jobs is at work" in watch(api, config(SUSPENDED), NOW)
    assert api.changes == []


def test_what_is_refused_is_named_and_does_not_keep_the_others() -> None:
    api = world()
    api.refuses.add(JOB)
    with pytest.raises(OSError, match="failed: Job/training/train: HTTP Error 403"):
        watch(api, config(SUSPENDED, DELETED), NOW)
    assert POD not in api.objects
    assert "deleted Pod/training/shell; failed: Job" in api.objects[PLACE]["metadata"]["annotations"][NOTE]


def owned(kind: str, api_version: str, name: str) -> Owned:
    return Owned(api_version=api_version, name=name, object_kind=kind, namespace="training", uid=f"uid-{name}")


def a_view(*bodies: tuple[str, Body]) -> RunView:
    stages = (*creation().stages[:2], replace(creation().stages[2], holds_accelerators=True))
    first = replace(creation(), run_id=RUN, stages=stages, limits=Limits(watchdog_minutes=90))
    lines: list[tuple[str, Body]] = [("", first), ("train", Intent(Action.PERFORM)), *bodies]
    return fold([JournalRecord(n, 0.0, "me", stage, 1, body) for n, (stage, body) in enumerate(lines, 1)], holder="me")


MADE: tuple[tuple[str, Body], ...] = (
    ("operators", owned("Deployment", "apps/v1", "operator")),
    ("train", owned("ConfigMap", "v1", "settings")),
    ("train", owned("MPIJob", "kubeflow.org/v2beta1", "nccl")),
    ("train", owned("RayCluster", "ray.io/v1", "ray")),
    ("train", owned("Job", "batch.volcano.sh/v1alpha1", "gang")),
    ("train", owned("Deployment", "apps/v1", "server")),
)


def test_only_what_holds_accelerators_is_stopped_each_in_its_way() -> None:
    found = {one.path: one.patch for one in watched_objects(a_view(*MADE))}
    assert found == {
        "/apis/kubeflow.org/v2beta1/namespaces/training/mpijobs/nccl": {"spec": {"runPolicy": {"suspend": True}}},
        "/apis/ray.io/v1/namespaces/training/rayclusters/ray": {"spec": {"suspend": True}},
        "/apis/batch.volcano.sh/v1alpha1/namespaces/training/jobs/gang": None,
        "/apis/apps/v1/namespaces/training/deployments/server": {"spec": {"replicas": 0}},
    }
    done = (*MADE, ("train", Outcome(Action.PERFORM, Result.DONE)))
    assert watched_objects(a_view(*done)) == ()


def test_its_role_names_the_objects_of_the_run_and_has_no_verb_more() -> None:
    view = a_view(*MADE)
    manifests = manifests_of(view, watched_objects(view), STORE)
    roles = {one["metadata"]["namespace"]: one["rules"] for one in manifests if one["kind"] == "Role"}
    assert roles[STORE] == [
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [f"eksml-run-{RUN}"],
            "verbs": ["get", "patch"],
        }
    ]
    assert [(rule["resources"], rule["resourceNames"], rule["verbs"]) for rule in roles["training"][:-1]] == [
        (["mpijobs"], ["nccl"], ["get", "patch"]),
        (["rayclusters"], ["ray"], ["get", "patch"]),
        (["jobs"], ["gang"], ["get"]),
        (["deployments"], ["server"], ["get", "patch"]),
    ]
    assert roles["training"][-1] == {"apiGroups": ["bus.volcano.sh"], "resources": ["commands"], "verbs": ["create"]}
    assert {one["metadata"]["name"] for one in manifests} == {watchdog_name(RUN)} == {"eksml-watchdog-7clq5bfkflkl6"}


def granted(manifests: list[dict[str, Any]]) -> set[tuple[str, str, str, str, str]]:
    """The rights of the service account: namespace, group, resource, name and verb, as RBAC reads the rules."""
    (account,) = [one["metadata"] for one in manifests if one["kind"] == "ServiceAccount"]
    roles = {
        (one["metadata"]["namespace"], one["metadata"]["name"]): one["rules"]
        for one in manifests
        if one["kind"] == "Role"
    }
    found = set()
    for one in [each for each in manifests if each["kind"] == "RoleBinding"]:
        subject = {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
        assert (one["subjects"], one["roleRef"]["kind"]) == ([subject], "Role")
        for rule in roles[one["metadata"]["namespace"], one["roleRef"]["name"]]:
            assert rule.get("resourceNames") or rule["verbs"] == ["create"]
            found |= {
                (one["metadata"]["namespace"], group, resource, name, verb)
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for name in rule.get("resourceNames", [""])
                for verb in rule["verbs"]
            }
    return found


def asked(calls: list[tuple[str, str]]) -> set[tuple[str, str, str, str, str]]:
    """The same of requests, as the API server reads their paths."""
    found = set()
    for method, path in calls:
        words = path.strip("/").split("/")
        group = words[1] if words[0] == "apis" else ""
        namespace, resource, name = (*words[-2 - (method != "POST") :], "")[:3]
        found.add((namespace, group, resource, name, "create" if method == "POST" else method.lower()))
    return found


def test_its_role_allows_what_its_program_asks_for_and_nothing_else() -> None:
    view = a_view(*MADE, ("train", owned("Pod", "v1", "shell")))
    objects = watched_objects(view)
    api = FakeApi({PLACE: record(600), **{one.path: {"metadata": {"uid": one.uid}, "spec": {}} for one in objects}})
    assert "suspended" in watch(api, config_of(view, objects, STORE), NOW)
    assert {method for method, _ in api.calls} == {"GET", "PATCH", "DELETE", "POST"}
    assert asked(api.calls) == granted(manifests_of(view, objects, STORE))


def test_an_api_server_accepts_its_objects() -> None:
    view = a_view(*MADE, ("train", owned("Pod", "v1", "shell")))
    for one in manifests_of(view, watched_objects(view), STORE):
        assert complaints_about(one) == [], one["kind"]


@pytest.mark.parametrize(
    ("registry", "image"),
    [
        ("", "public.ecr.aws/docker/library/python:3.12-alpine"),
        (
            "111122223333.dkr.ecr.us-west-2.amazonaws.com/ecr-public/",
            "111122223333.dkr.ecr.us-west-2.amazonaws.com/ecr-public/docker/library/python:3.12-alpine",
        ),
        ("localhost:5000", "localhost:5000/docker/library/python:3.12-alpine"),
    ],
)
def test_its_image_comes_from_the_registry_that_serves_all_images_of_this_program(
    registry: str, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REGISTRY_VARIABLE, registry)
    view = a_view(*MADE)
    (cron,) = [one for one in manifests_of(view, watched_objects(view), STORE) if one["kind"] == "CronJob"]
    assert cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["image"] == image
    others = {copying("/data", "s3://bucket/a", region="us-west-2").image, commands._script_job("ls").image}
    assert {name.partition("/docker/")[0].partition("/aws-cli/")[0] for name in others} == {
        image.removesuffix("/docker/library/python:3.12-alpine")
    }
    assert kept_environment({}).get(REGISTRY_VARIABLE, "") == registry  # for runners that a later process starts
    (line,) = watchdog_lines(Namespace(limit_watchdog="1h")) if registry else [None]
    assert line is None or "it is in a registry of your own" in line.detail


@pytest.mark.parametrize("registry", ["https://mirror", "Mirror.example", "mirror/a b", "mirror:tag", "/path", "a//b"])
def test_what_is_no_registry_is_refused(registry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REGISTRY_VARIABLE, registry)
    with pytest.raises(ConfigError, match=f"{REGISTRY_VARIABLE} is not a registry"):
        own_image(PYTHON)


def test_the_role_for_launches_allows_what_is_applied() -> None:
    rules = next(
        one["rules"]
        for one in yaml.safe_load_all(asset("rbac.yaml").read_text(encoding="utf-8"))
        if one["metadata"]["name"] == "eksml-watchdog"
    )
    allowed = {(group, resource) for rule in rules for group in rule["apiGroups"] for resource in rule["resources"]}
    view = a_view(*MADE)
    for one in manifests_of(view, watched_objects(view), STORE):
        group = one["apiVersion"].rpartition("/")[0]
        assert (group, f"{one['kind'].lower()}s") in allowed


def a_cron_job(scheduled: str, succeeded: str = "") -> dict[str, Any]:
    status = {"lastScheduleTime": scheduled} if scheduled else {}
    status |= {"lastSuccessfulTime": succeeded} if succeeded else {}
    return {"metadata": {"name": "w", "creationTimestamp": "2026-11-20T21:01:00Z"}, "status": status}


@pytest.mark.parametrize(
    ("cron", "since"),
    [
        (None, ""),
        ({}, ""),
        (a_cron_job(""), ""),
        (a_cron_job("2026-11-20T21:10:00Z"), ""),
        (a_cron_job("2026-11-20T21:15:00Z"), "21:01"),
        (a_cron_job("2026-11-20T22:15:00Z", "2026-11-20T22:10:04Z"), ""),
        (a_cron_job("2026-11-20T22:30:00Z", "2026-11-20T22:10:04Z"), "22:10"),
    ],
)
def test_pods_that_never_succeed_are_told_and_one_that_is_under_way_is_not(
    cron: dict[str, Any] | None, since: str
) -> None:
    said = idle_reason(cron, RUN)
    assert bool(said) == bool(since)
    if since:
        assert f"No pod of its CronJob has succeeded since {since} UTC." in said
        assert f"describe pods -l eksml.dev/run={RUN}" in said


class FakeJournal(RunnerJournal):
    """The journal of a run with a watchdog, and the heartbeat of its runner."""

    def __init__(self, folder: Path) -> None:
        self._heartbeat = Heartbeat(folder, own_identity(), SystemClock())

    async def view(self) -> RunView:
        view = a_view(*MADE)
        first = replace(view.stages[0], outputs={CLUSTER_UID: "uid"})
        return replace(view, stages=(first, *view.stages[1:]))

    async def write_at_limit(self, body: Body) -> None:
        raise AssertionError(body)


async def test_a_watchdog_that_may_not_be_made_is_on_screen_and_an_outage_is_not(tmp_path: Path) -> None:
    journal = FakeJournal(tmp_path)
    error: ConsoleError = AccessError("roles may not be created.")

    def refused(view: RunView) -> StageContext:
        raise error

    work = WatchdogKeeper(journal, refused, SystemClock()).accompany
    with pytest.raises(AccessError):
        await work()
    monitor = RunMonitor(tmp_path, SystemClock())
    (notice,) = monitor.notices(Lease(own_identity(), "token", 0.0), read_heartbeat(tmp_path, own_identity()))
    assert notice.text == (
        "Its watchdog does not work: nothing stops its jobs while this machine is off. roles may not be created."
    )
    journal.heartbeat.waits_no_more()
    error = UnreachableError("no answer")
    with pytest.raises(UnreachableError):
        await work()
    assert not journal.heartbeat.state.waits


def test_where_the_cron_job_is_not_there_no_report_counts_on_it() -> None:
    cron = Owned(api_version="batch/v1", name=watchdog_name(RUN), object_kind="CronJob", namespace="default", uid="u")
    without, with_it = a_view(*MADE), a_view(*MADE, ("", cron))
    assert "The watchdog is not in the cluster now" in run_table(without, now=60.0)
    assert "Beyond that the CronJob in the cluster stops" in run_table(with_it, now=60.0)
    idle = replace(with_it, notices=(Notice(NoticeKind.WATCHDOG_IDLE, "It does not work."),))
    assert "only while this machine runs, and its watchdog does not work." in run_table(idle, now=60.0)
