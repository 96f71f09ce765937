"""The cluster layer over the wire: the same on the sandbox and on a real control plane."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from actions.base.clock import SystemClock
from actions.base.errors import ConflictError, MissingError, RefusedError
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.logs.follow import ContainerLog, LogLine, follow, read_log
from actions.cluster.objects.apply import ApplyConflictError, apply
from actions.cluster.objects.catalogue import load_catalogue
from actions.cluster.objects.client import Discovery, ObjectRef, delete, fetch_object, list_objects, merge_patch
from actions.cluster.objects.operations import (
    DrainPlan,
    Target,
    delete_target,
    evict_all,
    identify,
    restart_target,
    scale_target,
    with_protected,
)
from actions.cluster.objects.status_rules import WorkState, object_status
from actions.cluster.remote import exec as execution
from actions.cluster.remote.exec import run_in_pod
from actions.cluster.watch.health import Health, SourceHealth
from actions.cluster.watch.reflector import Raw, Reflector
from actions.cluster.watch.table_format import ObjectRow, TableFormat
from actions.sandbox.apiserver.printing.table import columns_of
from actions.sandbox.apiserver.storage.resources import builtin_types
from tests.flow.kubectl import Kubectl
from tests.support import polling
from tests.unit.cluster.clocks import HastyClock

Document = dict[str, Any]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
DEADLINE_SECONDS = 120.0


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def session(cluster: Kubectl) -> AsyncIterator[KubeSession]:
    opened = await KubeSession.connect(ClusterTarget(cluster.kubeconfig))
    yield opened
    await opened.aclose()


def a_pod(script: str, *, restart: str = "Never") -> Document:
    container = {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", script]}
    spec = {"restartPolicy": restart, "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "worker"}, "spec": spec}


def settings(colour: str) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"colour": colour}}


async def until(condition: Callable[[Document], bool], session: KubeSession) -> Document:
    """The pod, once it is as wanted."""
    discovery, ref = Discovery(session), ObjectRef("v1", "Pod", session.namespace, "worker")
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition(pod := await fetch_object(session, discovery, ref)):
            await asyncio.sleep(0.05)
    return pod


def is_running(pod: Document) -> bool:
    return object_status(pod).state is WorkState.RUNNING


async def test_a_log_is_followed_to_the_end_of_its_container(cluster: Kubectl, session: KubeSession) -> None:
    script = f"echo one; sleep {cluster.speed}; echo two; sleep {cluster.speed}; echo three; exit 3"
    await apply(session, Discovery(session), a_pod(script))
    await until(lambda pod: object_status(pod).state is not WorkState.WAITING, session)
    lines: list[LogLine] = []
    async with asyncio.timeout(DEADLINE_SECONDS):
        end = await follow(session, ContainerLog(session.namespace, "worker", "main"), on_lines=lines.extend)
    assert [line.text for line in lines] == ["one", "two", "three"]
    assert end.exit_code == 3
    assert sorted(lines, key=lambda line: line.at_ns) == lines


async def test_the_log_before_a_restart_is_kept(cluster: Kubectl, session: KubeSession) -> None:
    failing = f"echo attempt; sleep {2 * cluster.speed}; exit 1"
    await apply(session, Discovery(session), a_pod(failing, restart="OnFailure"))

    def is_restarted(pod: Document) -> bool:
        (status,) = pod["status"].get("containerStatuses") or [{}]
        return bool(status.get("restartCount", 0) >= 1 and "running" in status["state"])

    pod = await until(is_restarted, session)
    before = await read_log(session, ContainerLog(session.namespace, "worker", "main"), previous=True)
    assert [line.text for line in before] == ["attempt"]
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1


@pytest.mark.parametrize("protocol", execution.PROTOCOLS)
async def test_exec_in_either_protocol(protocol: str, session: KubeSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "PROTOCOLS", (protocol,))
    await apply(session, Discovery(session), a_pod("sleep 1000000"))
    await until(is_running, session)
    told = await run_in_pod(session, session.namespace, "worker", "main", ["sh", "-c", "echo out; ls nowhere; exit 7"])
    assert (told.stdout, told.exit_code) == (b"out\n", 7)
    assert b"nowhere" in told.stderr


async def test_what_is_typed_reaches_a_program_and_its_end_too(session: KubeSession) -> None:
    await apply(session, Discovery(session), a_pod("sleep 1000000"))
    await until(is_running, session)
    told = await run_in_pod(session, session.namespace, "worker", "main", ["sh"], stdin=b"echo $((40+2)) $HOSTNAME\n")
    assert b"worker" in told.stdout


async def test_a_conflict_names_owner_and_field(session: KubeSession) -> None:
    discovery = Discovery(session)
    await apply(session, discovery, settings("red"), manager="somebody")
    with pytest.raises(ApplyConflictError, match=r"data\.colour belongs to somebody"):
        await apply(session, discovery, settings("blue"))
    await apply(session, discovery, settings("blue"), force=True)
    (found,) = [one for one in await list_all(session, discovery) if one["metadata"]["name"] == "settings"]
    assert found["data"] == {"colour": "blue"}


@pytest.mark.parametrize("wrong", [{"dta": {"colour": "red"}}, {"data": {"colour": 5}}], ids=["unknown", "type"])
async def test_a_manifest_with_a_mistake_is_refused_and_not_tried_again(
    session: KubeSession, wrong: dict[str, Any]
) -> None:
    with pytest.raises(RefusedError, match=rf"settings is refused: \.{next(iter(wrong))}"):
        await apply(session, Discovery(session), settings("red") | wrong)


async def test_nothing_is_applied_into_a_namespace_that_is_being_deleted(session: KubeSession) -> None:
    discovery = Discovery(session)
    held = settings("red")
    held["metadata"]["finalizers"] = ["eksml.dev/test"]
    ref = ObjectRef("v1", "Namespace", "", f"{session.namespace}-going")
    await apply(session, discovery, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ref.name}})
    held["metadata"]["namespace"] = ref.name
    await apply(session, discovery, held)
    await delete(session, discovery, ref)
    late = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late", "namespace": ref.name}}
    with pytest.raises(ConflictError, match="being terminated"):
        await apply(session, discovery, late)
    free = {"metadata": {"finalizers": None}}
    await merge_patch(session, discovery, ObjectRef("v1", "ConfigMap", ref.name, "settings"), free)


async def list_all(session: KubeSession, discovery: Discovery) -> Sequence[Document]:
    return await list_objects(session, discovery, "v1", "ConfigMap", namespace=session.namespace)


class Seen:
    """A sink with all that a reflector has reported."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.told: list[str] = []
        self.changed = asyncio.Event()
        self.is_live = False

    async def replace(self, items: Sequence[str]) -> None:
        self.names = set(items)
        self.changed.set()

    def upsert(self, item: str) -> None:
        self.names.add(item)
        self.told.append(f"+{item}")
        self.changed.set()

    def remove(self, item: str) -> None:
        self.names.discard(item)
        self.told.append(f"-{item}")
        self.changed.set()

    def health(self, health: SourceHealth) -> None:
        self.is_live = health.state is Health.LIVE
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not condition():
                await self.changed.wait()
                self.changed.clear()


@pytest.mark.parametrize("prefers_watch_list", [True, False])
async def test_a_reflector_sees_objects_come_and_go(session: KubeSession, prefers_watch_list: bool) -> None:
    def name_of(raw: Raw) -> str:
        return str(msgspec.json.decode(raw)["metadata"]["name"])

    discovery, seen = Discovery(session), Seen()
    await apply(session, discovery, settings("red"))
    path = f"/api/v1/namespaces/{session.namespace}/configmaps"
    reflector = Reflector(session, path, decode=name_of, identify=str, sink=seen, prefers_watch_list=prefers_watch_list)
    running = asyncio.create_task(reflector.run())
    try:
        await seen.until(lambda: seen.is_live and "settings" in seen.names)
        ref = ObjectRef("v1", "ConfigMap", session.namespace, "settings")
        await delete(session, discovery, ref)
        await seen.until(lambda: "settings" not in seen.names)
        await apply(session, discovery, settings("blue"))
        await seen.until(lambda: "settings" in seen.names)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    told = [one for one in seen.told if one.endswith("settings")]  # a new namespace gets a ConfigMap of its authority
    assert told[-2:] == ["-settings", "+settings"]


async def test_a_list_comes_as_a_table(session: KubeSession) -> None:
    await apply(session, Discovery(session), a_pod("sleep 1000000"))
    await until(is_running, session)
    path = f"/api/v1/namespaces/{session.namespace}/pods"
    table = msgspec.json.decode(await session.request("GET", path, accept=TABLE))
    columns = [column["name"] for column in table["columnDefinitions"]]
    assert (table["kind"], columns[:5]) == ("Table", ["Name", "Ready", "Status", "Restarts", "Age"])
    assert table["rows"][0]["cells"][:4] == ["worker", "1/1", "Running", "0"]


class SeenRows(Seen):
    """A sink of rows, as `name cell cell …` without ages."""

    def __init__(self, form: TableFormat) -> None:
        super().__init__()
        self.form = form
        self.rows: dict[str, str] = {}

    async def replace(self, items: Sequence[ObjectRow]) -> None:  # type: ignore[override]
        self.rows = {row.name: self._text(row) for row in items}
        self.changed.set()

    def upsert(self, item: ObjectRow) -> None:  # type: ignore[override]
        self.rows[item.name] = self._text(item)
        self.changed.set()

    def remove(self, item: ObjectRow) -> None:  # type: ignore[override]
        del self.rows[item.name]
        self.changed.set()

    def _text(self, row: ObjectRow) -> str:
        cells = zip(self.form.columns, row.cells, strict=True)
        return " ".join(str(cell) for column, cell in cells if not column.priority and column.name != "Age")


async def test_a_kind_is_listed_and_watched_as_a_table(session: KubeSession) -> None:
    discovery, form = Discovery(session), TableFormat()
    kind = (await load_catalogue(session)).find("cm")
    await apply(session, discovery, settings("red"))
    seen = SeenRows(form)
    reflector: Reflector[ObjectRow] = Reflector(
        session, kind.resource.path(session.namespace), decode=form.decode, identify=lambda row: row.uid, sink=seen,
        prefers_watch_list=False, form=form,
    )  # fmt: skip
    running = asyncio.create_task(reflector.run())
    try:
        await seen.until(lambda: seen.is_live and seen.rows.get("settings") == "settings 1")
        ref = ObjectRef("v1", "ConfigMap", session.namespace, "settings")
        await merge_patch(session, discovery, ref, {"data": {"size": "9"}})
        await seen.until(lambda: seen.rows.get("settings") == "settings 2")
        await delete(session, discovery, ref)
        await seen.until(lambda: "settings" not in seen.rows)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert [column.name for column in form.columns] == ["Name", "Data", "Age"]


@pytest.mark.parametrize("word", ["deploy", "deployments", "Deployment", "deployments.apps", "deployments.v1.apps"])
async def test_a_kind_is_found_by_each_of_its_names(session: KubeSession, word: str) -> None:
    found = (await load_catalogue(session)).find(word)
    assert (found.api_version, found.plural, "scale" in found.subresources) == ("apps/v1", "deployments", True)


def a_deployment() -> Document:
    container = {"name": "main", "image": "busybox:1.36"}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


async def test_a_workload_is_scaled_restarted_and_deleted_by_its_uid(session: KubeSession) -> None:
    discovery = Discovery(session)
    made = await apply(session, discovery, a_deployment())
    deployments = (await load_catalogue(session)).find("deploy").resource
    target = await identify(session, Target(deployments, session.namespace, "web"))
    assert target.uid == made["metadata"]["uid"]
    assert await scale_target(session, target, 1) == 0
    await restart_target(session, target, clock=SystemClock())
    found = await session.get(target.path)
    assert found["spec"]["replicas"] == 1
    assert "kubectl.kubernetes.io/restartedAt" in found["spec"]["template"]["metadata"]["annotations"]
    other = msgspec.structs.replace(target, uid="00000000-0000-0000-0000-000000000000")
    for change in (delete_target(session, other), scale_target(session, other, 3)):
        with pytest.raises(ConflictError):
            await change
    await delete_target(session, target, propagation="foreground")

    async def is_gone() -> bool:
        return not await exists(session, target)

    await polling.until(is_gone, "the end of the Deployment", deadline_seconds=DEADLINE_SECONDS)


async def test_an_eviction_is_meant_for_one_pod(session: KubeSession) -> None:
    await apply(session, Discovery(session), a_pod("sleep 1000000"))
    await until(is_running, session)
    pods = (await load_catalogue(session)).find("pods").resource
    target = await identify(session, Target(pods, session.namespace, "worker"))
    other = msgspec.structs.replace(target, uid="00000000-0000-0000-0000-000000000000")
    await evict_all(session, [other], clock=SystemClock(), deadline_seconds=DEADLINE_SECONDS)
    assert await exists(session, target)
    await evict_all(session, [target], clock=SystemClock(), deadline_seconds=DEADLINE_SECONDS)
    assert not await exists(session, target)


class BriskClock(HastyClock):
    """A clock on which a second is over in a fiftieth."""

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(seconds / 50)


async def test_a_disruption_budget_holds_an_eviction_up_and_is_named(session: KubeSession) -> None:
    discovery, labels = Discovery(session), {"app": "guarded"}
    await apply(session, discovery, a_pod("sleep 1000000") | {"metadata": {"name": "worker", "labels": labels}})
    await until(is_running, session)
    budget: Document = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "guard"}}
    await apply(session, discovery, budget | {"spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}})
    ref, sentence = ObjectRef("policy/v1", "PodDisruptionBudget", session.namespace, "guard"), ""
    pods = (await load_catalogue(session)).find("pods").resource
    worker = await identify(session, Target(pods, session.namespace, "worker"))
    async with asyncio.timeout(DEADLINE_SECONDS):
        while "needs" not in sentence:
            plan = await with_protected(session, DrainPlan((worker,), 0, (), ()))
            ((sentence, names),) = plan.protected
    assert sentence == "The disruption budget guard needs 1 healthy pods and has 1 currently."
    assert names == (f"{session.namespace}/worker",)
    said: asyncio.Queue[tuple[int, str]] = asyncio.Queue()
    eviction = evict_all(
        session, [worker], clock=BriskClock(), deadline_seconds=3600, progress=lambda *news: said.put_nowait(news)
    )
    evicting = asyncio.create_task(eviction)
    assert await said.get() == (1, f"1 pod left to evict: {session.namespace}/worker. {sentence}")
    await merge_patch(session, discovery, ref, {"spec": {"minAvailable": 0}})
    await evicting
    assert not await exists(session, worker)


async def exists(session: KubeSession, target: Target) -> bool:
    try:
        await identify(session, target)
    except (MissingError, ConflictError):
        return False
    return True


async def test_built_in_kinds_have_the_columns_that_the_sandbox_prints(session: KubeSession) -> None:
    catalogue, differing = await load_catalogue(session), {}
    for resource in builtin_types():
        kind = catalogue.named(resource.api_version, resource.kind)
        if kind is None or kind.version != resource.version:
            continue
        answer = await session.request("GET", kind.resource.path(), query={"limit": "1"}, accept=TABLE)
        found = msgspec.json.decode(answer)["columnDefinitions"]
        real = [(one["name"], one["type"], one["format"], one["priority"]) for one in found]
        ours = [(one.name, one.kind, one.format, one.priority) for one in columns_of(resource)]
        if real != ours:
            differing[resource.qualified_plural] = (real, ours)
    assert differing == {}


async def test_the_cluster_says_who_it_is(session: KubeSession) -> None:
    identity = await session.identity()
    assert identity.uid
    assert (identity.region, identity.account) == ("us-west-2", "111122223333")
