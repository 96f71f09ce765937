"""A store whose objects are deleted, by the run's own teardown or by somebody, hinders neither resume nor teardown."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from actions.base.errors import RefusedError
from actions.base.process import ProcessIdentity, is_alive
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.client import Discovery, Document, delete, list_objects, merge_patch, ref_of
from actions.run.client import RunReader, load_run, resume_run, send_request
from actions.run.journal.folder import runner_log_path, write_block
from actions.run.objects.inventory import ref_of_owned
from actions.run.state.records import RequestKind
from actions.run.state.view import NoticeKind, RunState, RunView
from actions.run.store.access import KnownStore, known_store, note_vouched
from actions.run.store.kubernetes import KubernetesStore
from actions.run.store.objects import DamagedError
from actions.run.store.rows import read_rows
from actions.sandbox.locate import RunningSandbox
from tests.faults.rehearsal import CREDENTIALS, begin, kill, records_of, wait_for_run
from tests.faults.small import CONFIG_MAP, WORK, a_run, job_of
from tests.faults.watched import fault, has_succeeded
from tests.support.polling import until, wait
from tests.support.smallrun import own_name

SANDBOX_SPEED = 4.0
NAMESPACES = ("default", "eksml-tui")
KINDS = (("v1", "ConfigMap"), ("v1", "Secret"), ("coordination.k8s.io/v1", "Lease"))


@asynccontextmanager
async def connected(sandbox: RunningSandbox) -> AsyncIterator[KubeSession]:
    session = await KubeSession.connect(ClusterTarget(sandbox.kubeconfig))
    try:
        yield session
    finally:
        await session.aclose()


async def objects_of(session: KubeSession, run_id: str) -> list[str]:
    """Everything that the store in the cluster has of a run."""
    discovery, found = Discovery(session), []
    for version, kind in KINDS:
        for namespace in NAMESPACES:
            listed = await list_objects(session, discovery, version, kind, namespace=namespace)
            found += [str(ref_of(one)) for one in listed if run_id in one["metadata"]["name"]]
    return found


async def delete_all(session: KubeSession) -> None:
    """As `kubectl delete configmaps,leases --all` in both namespaces."""
    discovery = Discovery(session)
    for version, kind in KINDS:
        if kind == "Secret":
            continue
        for namespace in NAMESPACES:
            for one in await list_objects(session, discovery, version, kind, namespace=namespace):
                await delete(session, discovery, ref_of(one))


async def damage_all(session: KubeSession, run_id: str) -> None:
    """Spoil whatever the store in the cluster has of a run but its states."""
    discovery = Discovery(session)
    for version, kind in KINDS:
        for namespace in NAMESPACES if kind != "Secret" else ():
            for one in await list_objects(session, discovery, version, kind, namespace=namespace):
                if run_id in one["metadata"]["name"]:
                    change: Document = {"data": {"text": "rubbish"}, "binaryData": None}
                    if kind == "Lease":
                        change = {"metadata": {"annotations": {"eksml.dev/lease": "rubbish"}}}
                    await merge_patch(session, discovery, ref_of(one), change)


def a_working_run(tmp_path: Path, sandbox: RunningSandbox, *, seconds: int = 600) -> tuple[Path, ProcessIdentity]:
    """A run whose job works, and its runner."""
    folder = a_run(tmp_path, sandbox, WORK, job=job_of(f"sleep {seconds}"))
    runner = begin(folder)
    assert runner is not None
    wait(lambda: known_store(folder).address, "the fence to know the store")
    wait_for_run(folder, lambda view: view.stage("work").state.value == "running", "the job")
    return folder, runner


def ended_teardown(folder: Path) -> RunView:
    """The run, torn down, with nothing left."""
    view = wait_for_run(folder, lambda view: view.state is RunState.TORN_DOWN, "the teardown")
    assert view.audit is not None
    assert view.audit.is_clean, view.audit
    return view


def runner_of(folder: Path) -> ProcessIdentity | None:
    reader = RunReader(folder)
    reader.poll()
    try:
        return reader.holder if reader.runner_alive else None
    finally:
        reader.close()


def wait_for_end(folder: Path) -> None:
    """Wait until the newest runner has done what is left after the run's end, too."""
    last = re.compile(r"Z run [a-z ]+$")
    wait(lambda: last.search(runner_log_path(folder).read_text().rstrip()), "the end of the runner")


async def test_a_run_is_in_its_cluster_until_it_is_torn_down_and_a_second_teardown_ends(
    tmp_path: Path, sandbox: RunningSandbox
) -> None:
    folder = a_run(tmp_path, sandbox, objects=CONFIG_MAP)
    begin(folder)
    has_succeeded(folder)
    wait_for_end(folder)
    async with connected(sandbox) as session:
        store = KubernetesStore(session, known_store(folder).namespace)
        lease = await store.lease(folder.name)
        assert lease is not None
        assert (lease.epoch, lease.is_live, lease.status.state) == (1, False, "succeeded")
        assert [row.seq for row in await read_rows(store, folder.name)] == [row.seq for row in records_of(folder)]
        for _ in range(3):
            send_request(folder, RequestKind.TEARDOWN, environment=CREDENTIALS)
            wait_for_run(folder, lambda view: view.state is RunState.TORN_DOWN, "the teardown")
            ended_teardown(folder)
            wait_for_end(folder)
            assert await objects_of(session, folder.name) == []
    with pytest.raises(RefusedError, match=r"does not accept the request retry: it is torn down\."):
        send_request(folder, RequestKind.RETRY)


@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0])
async def test_a_runner_that_is_killed_in_the_audit_is_followed_by_one_that_ends(
    tmp_path: Path, sandbox: RunningSandbox, seconds: float
) -> None:
    folder = a_run(tmp_path, sandbox, objects=CONFIG_MAP)
    begin(folder)
    has_succeeded(folder)
    wait_for_end(folder)
    with fault(sandbox, "kind=slow", "delay-seconds=0.15"):
        send_request(folder, RequestKind.TEARDOWN, environment=CREDENTIALS)
        wait(lambda: "audit: begun" in runner_log_path(folder).read_text(), "the audit")
        time.sleep(seconds)  # the moment of the kill is what the test is about
        runner = runner_of(folder)
        if runner is not None:
            kill(runner)
    begin(folder)
    ended_teardown(folder)
    wait_for_end(folder)
    async with connected(sandbox) as session:
        assert await objects_of(session, folder.name) == []


@pytest.mark.parametrize("deed", ["resume", "cancel", "teardown"])
@pytest.mark.parametrize("is_runner_alive", [True, False])
async def test_all_that_is_in_the_cluster_is_deleted_and_the_run_goes_on(
    tmp_path: Path, sandbox: RunningSandbox, deed: str, *, is_runner_alive: bool
) -> None:
    folder, runner = a_working_run(tmp_path, sandbox, seconds=60)
    if not is_runner_alive:
        kill(runner)
    async with connected(sandbox) as session:
        await delete_all(session)
        if deed == "resume":
            if not is_runner_alive:
                assert "continues as process" in resume_run(folder, environment=CREDENTIALS)
            store = KubernetesStore(session, known_store(folder).namespace)

            async def is_back() -> bool:
                return await store.lease(folder.name) is not None

            await until(is_back, "the lease to be written again")
            has_succeeded(folder)
            wait_for_end(folder)
            there = await read_rows(store, folder.name)
            assert [row.seq for row in there] == [row.seq for row in records_of(folder)]
        elif deed == "cancel":
            send_request(folder, RequestKind.CANCEL, environment=CREDENTIALS)
            wait_for_run(folder, lambda view: view.state is RunState.CANCELLED, "the cancellation")
        send_request(folder, RequestKind.TEARDOWN, environment=CREDENTIALS)
        ended_teardown(folder)
        wait_for_end(folder)
        assert await objects_of(session, folder.name) == []


@pytest.mark.parametrize("is_runner_alive", [True, False])
async def test_what_is_damaged_in_the_cluster_is_written_again(
    tmp_path: Path, sandbox: RunningSandbox, *, is_runner_alive: bool
) -> None:
    folder, runner = a_working_run(tmp_path, sandbox, seconds=60)
    if not is_runner_alive:
        kill(runner)
    async with connected(sandbox) as session:
        store, discovery = KubernetesStore(session, known_store(folder).namespace), Discovery(session)
        await damage_all(session, folder.name)
        with pytest.raises(DamagedError):
            await store.lease(folder.name)
        if not is_runner_alive:
            assert "continues as process" in resume_run(folder, environment=CREDENTIALS)
        has_succeeded(folder)
        wait_for_end(folder)
        lease = await store.lease(folder.name)
        assert lease is not None
        assert (lease.epoch, lease.status.state) == (1, "succeeded")
        there = await read_rows(store, folder.name)
        assert [row.seq for row in there] == [row.seq for row in records_of(folder)]
        for version, kind in KINDS[:1]:
            listed = await list_objects(session, discovery, version, kind, namespace=known_store(folder).namespace)
            spoilt = [one["metadata"] for one in listed if (one.get("data") or {}).get("text") == "rubbish"]
            assert [one["annotations"] for one in spoilt] == []
        send_request(folder, RequestKind.TEARDOWN, environment=CREDENTIALS)
        ended_teardown(folder)


async def test_a_runner_whose_run_another_machine_may_have_torn_down_looks_before_it_acts(
    tmp_path: Path, sandbox: RunningSandbox
) -> None:
    """The lease and all that the run has made are gone: a takeover and a teardown leave no more than that."""
    folder, runner = a_working_run(tmp_path, sandbox)
    kill(runner)
    async with connected(sandbox) as session:
        await delete_all(session)
        discovery = Discovery(session)
        for item in load_run(folder).owned:
            if item.uid and not item.existed:
                await delete(session, discovery, ref_of_owned(item))
        before = load_run(folder).last_seq
        assert "continues as process" in resume_run(folder, environment=CREDENTIALS)
        view = wait_for_run(folder, lambda view: bool(view.notices), "a notice")
        assert view.notices[0].kind is NoticeKind.UNCERTAIN
        assert "all that it had made in its cluster are gone" in view.notices[0].text
        assert f"eksml-tui runs resume {folder.name} --without-store" in view.notices[0].text
        assert await objects_of(session, folder.name) == []
        assert load_run(folder).last_seq == before
        send_request(folder, RequestKind.TEARDOWN, environment=CREDENTIALS)
        ended_teardown(folder)


async def test_a_store_in_the_runs_own_namespace_goes_with_it(tmp_path: Path, sandbox: RunningSandbox) -> None:
    """The store of those who have no other namespace; the teardown deletes it in the middle."""
    name, objects = own_name(tmp_path), "apiVersion: v1\nkind: Namespace\nmetadata: {name: NAME}\n"
    folder = a_run(tmp_path, sandbox, WORK, objects=objects, job=job_of("sleep 600"))
    write_block(folder / "store", msgspec.json.encode(KnownStore(namespace=name)))
    begin(folder)
    wait(lambda: known_store(folder).address, "the fence to know the store")
    async with connected(sandbox) as session:
        assert await KubernetesStore(session, name).lease(folder.name) is not None
        send_request(folder, RequestKind.TEARDOWN, environment=CREDENTIALS)
        ended_teardown(folder)
        wait_for_end(folder)
        assert await objects_of(session, folder.name) == []


async def test_a_runner_that_waits_for_its_store_goes_on_when_a_person_vouches(
    tmp_path: Path, sandbox: RunningSandbox
) -> None:
    folder, runner = a_working_run(tmp_path, sandbox)
    kill(runner)
    with fault(sandbox, "kind=broken"):
        send_request(folder, RequestKind.TEARDOWN, environment=CREDENTIALS)
        view = wait_for_run(folder, lambda view: bool(view.notices), "a notice")
        assert view.notices[0].kind is NoticeKind.UNCERTAIN
        assert view.notices[0].text.count(f" If none has: eksml-tui runs resume {folder.name} --without-store. ") == 1
        before = load_run(folder).last_seq
        note_vouched(folder)
        assert "is already running" in resume_run(folder, environment=CREDENTIALS)
        wait_for_run(folder, lambda view: view.last_seq > before, "the next record")
        assert known_store(folder).is_vouched
    ended_teardown(folder)
    assert not known_store(folder).is_vouched or known_store(folder).is_removed
    assert not is_alive(runner)
