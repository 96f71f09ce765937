"""The kept snapshot: the same facts again, or nothing; and watches that go on from it."""

from __future__ import annotations

import asyncio
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from aiohttp import web
from msgspec.structs import replace

from actions.cluster.auth.kubeconfig import ChosenContext
from actions.cluster.auth.session import REVIEWS
from actions.cluster.state import kept
from actions.cluster.state.cluster_state import ClusterState
from actions.cluster.state.kept import KeptSnapshot, WatchVersions, context_digest, load_kept, write_kept
from actions.cluster.state.pod_index import PodIndex
from actions.cluster.state.snapshot import ClusterSnapshot
from actions.cluster.watch.health import Health
from actions.fleet.facts import NOTHING, PodFacts, Resources
from tests.support.builders import a_node, a_pod
from tests.unit.cluster.faults import event, page, refusal, stream
from tests.unit.cluster.samples import a_pod as pod_object
from tests.unit.cluster.servers import session_to
from tests.unit.cluster.test_state import Cluster, _until

ME = "ab" * 32
NOW = 1_000_000.0
_CHOSEN = ChosenContext("file", "here", "c1", "https://one", "default", ca_data="Q0E=")


def _snapshot(pods: int = 2500) -> ClusterSnapshot:
    nodes = {name: replace(a_node(name), taints=("a=b:NoSchedule",)) for name in ("node-1", "node-2")}
    every = [replace(a_pod(f"p{n}", node=f"node-{n % 2 + 1}"), restarts=n, owner_kind="Job") for n in range(pods)]
    found = {pod.key: pod for pod in every}
    return ClusterSnapshot(nodes=nodes, pods=found, usage=_counted(found).usage, is_complete=True)


def _counted(pods: Mapping[str, PodFacts]) -> PodIndex:
    """An index in which each pod was counted by itself."""
    index = PodIndex()
    for key, pod in pods.items():
        index.change(key, None, pod)
    index.update_totals()
    return index


def _write(folder: Path, snapshot: ClusterSnapshot | None = None, *, identity: str = ME, at: float = NOW) -> Path:
    versions = WatchVersions("5", "7")
    assert write_kept(snapshot or _snapshot(), identity, uid="u", taken_at=at, versions=versions, folder=folder)
    return next(file for file in folder.iterdir() if file.name.startswith(identity[:32]))


def _load(folder: Path, *, identity: str = ME, now: float = NOW + 60) -> KeptSnapshot | None:
    return load_kept(identity, now=now, folder=folder)


def test_what_was_kept_comes_back_with_its_sums(tmp_path: Path) -> None:
    snapshot = _snapshot()
    file = _write(tmp_path / "new", snapshot)
    assert file.stat().st_mode & 0o777 == 0o600
    back = _load(tmp_path / "new")
    assert back is not None
    assert (back.snapshot.nodes, back.snapshot.pods) == (snapshot.nodes, snapshot.pods)
    assert (back.taken_at, back.snapshot.as_of, back.uid, back.versions) == (NOW, NOW, "u", WatchVersions("5", "7"))
    assert not back.snapshot.is_complete
    assert back.snapshot.usage == snapshot.usage
    assert back.snapshot.usage["node-1"].pods == 1250
    assert len(back.snapshot.pods_by_node["node-2"]) == 1250


def test_the_sums_go_on_from_what_was_kept(tmp_path: Path) -> None:
    pods = dict(_snapshot(40).pods)
    lost = replace(a_pod("lost"), node="")
    cores = replace(a_pod("cores", node="node-3"), requests=Resources(cpu_milli=5, neuron=2, neuron_cores=4))
    ended = replace(a_pod("ended", node="node-4"), phase="Succeeded")
    pods |= {pod.key: pod for pod in (lost, cores, ended)}
    _write(tmp_path, ClusterSnapshot(pods=pods, usage=_counted(pods).usage))
    back = _load(tmp_path)
    assert back is not None
    assert (back.index.usage, back.index.keys) == (_counted(pods).usage, _counted(pods).keys)
    for pod in (cores, ended, next(iter(pods.values()))):
        del pods[pod.key]
        back.index.change(pod.key, pod, None)
    pods[cores.key] = moved = replace(cores, node="node-1")
    back.index.change(cores.key, None, moved)
    back.index.update_totals()
    assert (back.index.usage, back.index.keys) == (_counted(pods).usage, _counted(pods).keys)


def test_what_needs_nothing_is_the_one_nothing_again(tmp_path: Path) -> None:
    pod = replace(a_pod("p"), requests=NOTHING)
    _write(tmp_path, ClusterSnapshot(pods={pod.key: pod}))
    back = _load(tmp_path)
    assert back is not None
    assert back.snapshot.pods[pod.key].requests is NOTHING


def test_a_damaged_file_is_not_there(tmp_path: Path) -> None:
    file = _write(tmp_path, _snapshot(20))
    whole = file.read_bytes()
    for at in range(0, len(whole), 97):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert _load(tmp_path) is None
    for end in range(0, len(whole), 97):
        file.write_bytes(whole[:end])
        assert _load(tmp_path) is None
    file.write_bytes(whole)
    assert _load(tmp_path) is not None


def test_a_well_formed_file_with_wrong_contents_is_not_there(tmp_path: Path) -> None:
    file = _write(tmp_path, _snapshot(20))
    frames = list(kept._frames(memoryview(file.read_bytes())))
    for number, frame in enumerate(frames):
        for at in range(0, len(frame), 31):
            wrong = frame[:at] + bytes([frame[at] ^ 0x55]) + frame[at + 1 :]
            file.write_bytes(b"".join(_framed([*frames[:number], wrong, *frames[number + 1 :]])))
            found = _load(tmp_path)  # whatever it reads, it does not fail
            assert found is None or found.snapshot.as_of == found.taken_at, at
    for others in (frames[:-1], [*frames, frames[-1]], [frames[0], *frames[2:]]):
        file.write_bytes(b"".join(_framed(others)))
        assert _load(tmp_path) is None


def _framed(frames: Sequence[bytes]) -> Iterator[bytes]:
    for frame in map(zlib.compress, frames):
        yield len(frame).to_bytes(4, "big") + frame


def test_a_frame_that_swells_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _write(tmp_path, _snapshot(20))
    monkeypatch.setattr(kept, "MOST_BYTES", 100_000)
    file.write_bytes(b"".join(_framed([bytes(200_000)])))
    assert _load(tmp_path) is None


def test_files_of_others_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _write(tmp_path)
    file.chmod(0o640)
    assert _load(tmp_path) is None
    file.chmod(0o600)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
        assert _load(tmp_path) is None
    real = file.rename(tmp_path / "elsewhere")
    file.symlink_to(real)
    assert _load(tmp_path) is None


def test_another_cluster_build_or_time_is_not_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _write(tmp_path)
    other = "cd" * 32
    (tmp_path / file.name.replace(ME[:32], other[:32])).write_bytes(file.read_bytes())
    for name in tmp_path.iterdir():
        name.chmod(0o600)
    assert _load(tmp_path, identity=other) is None
    assert _load(tmp_path, now=NOW - 1) is None
    assert _load(tmp_path, now=NOW + kept.LONGEST_SECONDS + 1) is None
    assert _load(tmp_path) is not None
    monkeypatch.setattr(kept, "build_stamp", lambda: "another")
    assert _load(tmp_path) is None


def test_files_are_few_and_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(kept.MOST_FILES + 3):
        file = _write(tmp_path, _snapshot(1), identity=f"{number:064x}"[::-1])
        os.utime(file, (NOW + number, NOW + number))
    assert len(list(tmp_path.iterdir())) == kept.MOST_FILES
    monkeypatch.setattr(kept, "MOST_OBJECTS", 10)
    assert not write_kept(_snapshot(9), ME, uid="u", taken_at=NOW, versions=WatchVersions(), folder=tmp_path)
    monkeypatch.setattr(kept, "MOST_BYTES", 10)
    assert not write_kept(_snapshot(1), ME, uid="u", taken_at=NOW, versions=WatchVersions(), folder=tmp_path)


def test_a_disk_without_room_costs_only_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept, "write_private", full)
    assert not write_kept(_snapshot(1), ME, uid="u", taken_at=NOW, versions=WatchVersions(), folder=tmp_path)


def test_an_identity_is_that_of_server_authority_and_user(tmp_path: Path) -> None:
    authority = tmp_path / "ca"
    authority.write_text("one")
    by_file = replace(_CHOSEN, ca_data="", ca_file=str(authority))
    first = context_digest(by_file)
    authority.write_text("two")
    others = [
        context_digest(replace(_CHOSEN, server="https://two")),
        context_digest(replace(_CHOSEN, context="there")),
        context_digest(replace(_CHOSEN, ca_data="Q0I=")),
        context_digest(replace(_CHOSEN, username="you")),
        context_digest(by_file),
        first,
    ]
    assert context_digest(_CHOSEN) == context_digest(replace(_CHOSEN, namespace="other", token="renewed"))
    assert len({context_digest(_CHOSEN), *others}) == 7


def test_a_secret_in_a_message_is_hidden(tmp_path: Path) -> None:
    key = "AKIAIOSFODNN7EXAMPLE"
    pod = replace(a_pod("p"), message=f"aws_secret_access_key=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY {key}")
    file = _write(tmp_path, ClusterSnapshot(pods={pod.key: pod}))
    assert b"wJalrXUtnFEMI" not in file.read_bytes()


class Resuming(Cluster):
    """A cluster that goes on with a watch of pods from version 7; every list of pods is counted."""

    def __init__(self, *, knows_version: bool) -> None:
        super().__init__()
        self.knows_version = knows_version
        self.lists = 0

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/api/v1/pods" and "watch" not in request.query:
            self.lists += 1
        if request.path in ("/api/v1/pods", "/api/v1/nodes") and request.query.get("resourceVersion") in ("5", "7"):
            if not self.knows_version:
                return await refusal(410, "Expired")(request)
            if request.path == "/api/v1/pods":
                return await stream(event("ADDED", pod_object("new")), then="hang")(request)
        return await super().__call__(request)


async def _resume(cluster: Resuming, folder: Path) -> ClusterSnapshot:
    _write(folder)
    back = _load(folder)
    assert back is not None
    async with session_to(cluster, folder) as session:
        state = ClusterState(session, kept=back)
        first = state.snapshot()
        assert first.as_of == NOW
        assert first.pods == back.snapshot.pods
        task = asyncio.create_task(state.run())
        try:
            live = await _until(state, lambda s: s.is_complete and s.pods.keys() & {"default/new", "default/other"})
            assert live.as_of == 0.0
            assert live.health["pods"].state is Health.LIVE
            return live
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_watch_goes_on_from_what_was_kept(tmp_path: Path) -> None:
    cluster = Resuming(knows_version=True)
    live = await _resume(cluster, tmp_path)
    assert cluster.lists == 0
    assert len(live.pods) == 2501


async def test_a_version_that_is_not_known_any_more_is_listed_anew(tmp_path: Path) -> None:
    cluster = Resuming(knows_version=False)
    live = await _resume(cluster, tmp_path)
    assert cluster.lists == 1
    assert set(live.pods) == {"default/esm1nv-pretraining-worker-0", "default/other"}
    (node,) = live.nodes
    assert live.usage.keys() == {node}


async def test_versions_are_those_of_the_facts_and_none_while_a_list_is_read(tmp_path: Path) -> None:
    async with session_to(Cluster(), tmp_path) as session:
        state = ClusterState(session)
        assert state.versions() == WatchVersions()
        task = asyncio.create_task(state.run())
        try:
            await _until(state, lambda s: s.is_complete)
            assert state.versions().pods == "10"
            assert state.versions().nodes in ("10", "11")
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_what_may_not_be_seen_as_a_whole_has_no_version(tmp_path: Path) -> None:
    class Forbidden(Resuming):
        async def __call__(self, request: web.Request) -> web.StreamResponse:
            if request.path == "/api/v1/pods":
                return await refusal(403, "Forbidden")(request)
            if request.path == "/api/v1/namespaces":
                return await page([], 3)(request)
            if request.path == REVIEWS:
                return web.json_response({"status": {"allowed": False}})
            return await super().__call__(request)

    _write(tmp_path)
    async with session_to(Forbidden(knows_version=True), tmp_path) as session:
        state = ClusterState(session, kept=_load(tmp_path))
        task = asyncio.create_task(state.run())
        try:
            seen = await _until(state, lambda s: "pods" in s.health and s.health["pods"].state is Health.FORBIDDEN)
            assert not seen.is_complete
            assert state.versions().pods == ""
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
