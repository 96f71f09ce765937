"""Protobuf says the same as JSON, and what is damaged is told as such."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from actions.base.errors import FormatError, UnreachableError
from actions.cluster.http.errors import status_of
from actions.cluster.protobuf_schema import CLASSES
from actions.cluster.state.decode import decode_pod as decode_json
from actions.cluster.state.pod_protobuf import decode_pod
from actions.cluster.watch import protobuf_format as protowire
from actions.cluster.watch.health import Health, SourceHealth
from actions.cluster.watch.reflector import Reflector
from actions.fleet.facts import PodFacts
from tests.support.polling import until
from tests.unit.cluster import protobytes
from tests.unit.cluster.clocks import HastyClock
from tests.unit.cluster.faults import Reply, Script, bookmark, event, page, refusal, stream
from tests.unit.cluster.samples import POD, a_container, a_pod
from tests.unit.cluster.servers import session_to

_PROTOBUF = "application/vnd.kubernetes.protobuf"
_MOMENT = "2026-11-21T10:05:00Z"


def _some_pod(dice: random.Random, name: str) -> dict[str, Any]:
    """A pod in any state, with any mixture of containers."""
    states: list[tuple[str, dict[str, Any]]] = [
        ("running", {"startedAt": _MOMENT}),
        ("waiting", {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}),
        ("waiting", {"reason": "PodInitializing"}),
        ("terminated", {"exitCode": 137, "reason": "OOMKilled", "startedAt": _MOMENT}),
        ("terminated", {"exitCode": 0, "reason": "Completed"}),
        ("terminated", {"signal": 9}),
    ]

    def containers(prefix: str, most: int) -> list[dict[str, Any]]:
        count = dice.randint(0, most)
        return [
            a_container(state, name=f"{prefix}{index}", ready=dice.random() < 0.5, **detail)
            | {"restartCount": dice.randint(0, 3), "started": dice.random() < 0.5}
            for index in range(count)
            for state, detail in [dice.choice(states)]
        ]

    document = a_pod(name)
    main, init = containers("c", 3), containers("i", 2)
    amounts = [{}, {"cpu": "250m"}, {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}]
    for part, entries in (("containers", main), ("initContainers", init)):
        document["spec"][part] = [
            {"name": entry["name"], "resources": {"requests": dice.choice(amounts)}}
            | ({"restartPolicy": "Always"} if part == "initContainers" and dice.random() < 0.5 else {})
            for entry in entries
        ]
    document["spec"]["overhead"] = dice.choice([None, {"memory": "64Mi"}])
    whole_pod = [None, {"requests": {"cpu": "3"}}, {"limits": {"memory": "4Gi"}}]
    document["spec"]["resources"] = random.Random(name).choice(whole_pod)  # beside the dice: what they gave stays
    conditions = [
        {"type": kind, "status": dice.choice(["True", "False"]), "reason": dice.choice(["", "SchedulingGated", "X"])}
        for kind in ("PodScheduled", "Initialized", "Ready")
    ]
    document["status"] = {
        "phase": dice.choice(["Pending", "Running", "Succeeded", "Failed"]),
        "reason": dice.choice(["", "Evicted", "NodeLost"]),
        "message": dice.choice(["", "because"]),
        "conditions": conditions,
        "containerStatuses": main,
        "initContainerStatuses": init,
    }
    if dice.random() < 0.2:
        document["metadata"]["deletionTimestamp"] = _MOMENT
    return document


def _of_json(document: dict[str, Any]) -> PodFacts:
    return decode_json(msgspec.json.encode(document))


def test_the_sample_says_the_same_in_both_forms() -> None:
    assert decode_pod(protobytes.pod_bytes(POD)) == _of_json(POD)


def test_any_pod_says_the_same_in_both_forms() -> None:
    dice = random.Random(11)
    for index in range(500):
        document = _some_pod(dice, f"p{index}")
        assert decode_pod(protobytes.pod_bytes(document)) == _of_json(document), document


def test_a_pod_that_simply_runs_says_the_same_in_both_forms() -> None:
    dice = random.Random(12)
    conditions = [{"type": "Ready", "status": status} for status in ("True", "False")]
    for index in range(200):
        document = _some_pod(dice, f"p{index}")
        entries = [a_container("running", name=f"c{n}", ready=dice.random() < 0.5, startedAt=_MOMENT) for n in range(2)]
        document["status"] |= {"phase": "Running", "reason": "", "message": ""}
        document["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}, dice.choice(conditions)]
        document["status"] |= {"containerStatuses": entries[: dice.randint(0, 2)], "initContainerStatuses": []}
        assert decode_pod(protobytes.pod_bytes(document)) == _of_json(document), document


def test_what_is_no_protobuf_is_a_format_error() -> None:
    with pytest.raises(FormatError):
        decode_pod(b"\xff\xff\xff")
    with pytest.raises(FormatError):
        protowire.read_page(b"<html>")
    with pytest.raises(FormatError):
        protowire.read_page(protobytes.enveloped(b"\xff\xff"))
    with pytest.raises(FormatError):
        protowire.read_event(b"\x00\x01")


def test_a_refusal_in_protobuf_is_read() -> None:
    body = protobytes.enveloped(protobytes.status_of(429, "TooManyRequests", "slow down", retry_after_seconds=7))
    status = status_of(body, code=429)
    assert (status.code, status.reason, status.message) == (429, "TooManyRequests", "slow down")
    assert status.retry_after_seconds == 7.0


def test_an_unreadable_refusal_in_protobuf_is_still_a_refusal() -> None:
    assert status_of(b"k8s\0\xff\xff", code=500).code == 500


async def _cut(data: bytes, sizes: list[int]) -> AsyncIterator[bytes]:
    at = 0
    for size in sizes:
        yield data[at : at + size]
        at += size
    yield data[at:]


async def test_frames_are_cut_out_of_chunks_that_end_anywhere() -> None:
    frames = [protobytes.framed("ADDED", protobytes.pod_bytes(a_pod(f"p{index}"))) for index in range(3)]
    data = b"".join(frames)
    for cut in range(0, len(data), 7):
        found = [frame async for batch in protowire.frames_of(_cut(data, [cut, 1])) for frame in batch]
        assert found == [frame[4:] for frame in frames]
    torn = [frame async for batch in protowire.frames_of(_cut(data[:-1], [])) for frame in batch]
    assert len(torn) == 2


async def test_a_length_that_cannot_be_ends_the_stream() -> None:
    with pytest.raises(UnreachableError):
        [batch async for batch in protowire.frames_of(_cut(b"\xff\xff\xff\xff....", []))]


class Pods:
    """A sink that keeps pods by name."""

    def __init__(self) -> None:
        self.facts: dict[str, PodFacts] = {}
        self.states: list[Health] = []

    async def replace(self, items: Any) -> None:
        self.facts = {pod.name: pod for pod in items}

    def upsert(self, item: PodFacts) -> None:
        self.facts[item.name] = item

    def remove(self, item: PodFacts) -> None:
        del self.facts[item.name]

    def health(self, health: SourceHealth) -> None:
        self.states.append(health.state)


def _framed(*frames: bytes, then: str = "hang") -> Reply:
    """A watch in protobuf."""

    async def reply(request: web.Request) -> web.StreamResponse:
        assert request.headers["Accept"] == protowire.ACCEPT
        response = web.StreamResponse(headers={"Content-Type": f"{_PROTOBUF};stream=watch"})
        await response.prepare(request)
        await response.write(b"".join(frames))
        if then == "hang":
            await asyncio.Event().wait()
        return response

    return reply


def _paged(*names: str) -> Reply:
    """A list in protobuf."""

    async def reply(request: web.Request) -> web.Response:
        body = protobytes.list_of([protobytes.pod_bytes(a_pod(name)) for name in names], "40")
        return web.Response(body=body, content_type=_PROTOBUF)

    return reply


async def _follow(folder: Path, wanted: set[str], *replies: Reply) -> tuple[Pods, Script]:
    """Reflect until the pods are these."""
    script, pods = Script(*replies), Pods()
    async with session_to(script, folder) as session:
        reflector = Reflector(
            session,
            "/api/v1/pods",
            decode=decode_json,
            decode_protobuf=decode_pod,
            identify=lambda pod: pod.uid,
            sink=pods,
            clock=HastyClock(),
        )
        task = asyncio.create_task(reflector.run())
        try:
            is_read = lambda: set(pods.facts) == wanted and len(script.queries) >= len(replies)  # noqa: E731
            await until(is_read, f"the pods {wanted}", deadline_seconds=60)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    return pods, script


def _pod_frame(kind: str, name: str, version: str = "") -> bytes:
    document = a_pod(name)
    document["metadata"]["resourceVersion"] = version
    return protobytes.framed(kind, protobytes.pod_bytes(document))


async def test_a_streamed_list_in_protobuf_goes_on_as_a_watch(tmp_path: Path) -> None:
    first = _framed(
        _pod_frame("ADDED", "a"),
        protobytes.bookmark_of("20", ends_initial=True),
        _pod_frame("ADDED", "b", "21"),
        _pod_frame("DELETED", "a", "22"),
        then="end",
    )
    _, script = await _follow(tmp_path, {"b"}, first, _framed())
    assert script.queries[1]["resourceVersion"] == "22"


async def test_an_error_event_in_protobuf_lists_again(tmp_path: Path) -> None:
    gone = protobytes.framed("ERROR", protobytes.status_of(410, "Expired", "too old"))
    first = _framed(_pod_frame("ADDED", "a"), protobytes.bookmark_of("20", ends_initial=True), gone)
    again = _framed(_pod_frame("ADDED", "b"), protobytes.bookmark_of("30", ends_initial=True))
    _, script = await _follow(tmp_path, {"b"}, first, again)
    assert script.kinds == ["stream", "stream"]


async def test_a_list_in_protobuf_is_read(tmp_path: Path) -> None:
    _, script = await _follow(tmp_path, {"a", "b"}, refusal(422, "Invalid"), _paged("a", "b"), _framed())
    assert script.kinds == ["stream", "list", "watch"]
    assert script.queries[2]["resourceVersion"] == "40"


async def test_a_server_that_answers_with_json_is_read_all_the_same(tmp_path: Path) -> None:
    json_stream = stream(event("ADDED", a_pod("a")), bookmark(9, ends_initial=True), then="hang")
    pods, _ = await _follow(tmp_path, {"a"}, json_stream)
    assert pods.facts["a"] == _of_json(a_pod("a"))


async def test_a_list_in_json_is_read_where_protobuf_was_asked_for(tmp_path: Path) -> None:
    await _follow(tmp_path, {"a"}, refusal(400, "BadRequest"), page([a_pod("a")], 5), stream(then="hang"))


@pytest.mark.parametrize("code", [406, 415])
async def test_a_server_that_refuses_protobuf_is_asked_for_json(tmp_path: Path, code: int) -> None:
    accepted: list[str] = []

    async def json_only(request: web.Request) -> web.StreamResponse:
        accepted.append(request.headers["Accept"])
        return await stream(event("ADDED", a_pod("a")), bookmark(9, ends_initial=True), then="hang")(request)

    _, script = await _follow(tmp_path, {"a"}, refusal(code, "NotAcceptable"), json_only)
    assert accepted == ["application/json"]
    assert script.kinds == ["stream", "stream"]


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 300, 16_383, 16_384, 16_500, 70_000])
@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"])
def test_an_object_is_cut_out_of_its_event_whatever_its_size(size: int, kind: str) -> None:
    inner = bytes(number % 251 for number in range(size))
    about = b"\x0a\x09\x0a\x02v1\x12\x03Pod"
    unknown = about + bytes(CLASSES["Unknown"](raw=inner).SerializeToString()) + b"\x1a\x00\x22\x00"
    extension = CLASSES["RawExtension"](raw=b"k8s\0" + unknown)
    event = CLASSES["WatchEvent"](type=kind, object=extension).SerializeToString()
    told, raw = protowire.read_event(event)
    assert (told, bytes(raw)) == (kind, inner)


def test_an_event_that_is_cut_short_is_never_taken_for_a_whole_one() -> None:
    whole = protobytes.framed("ADDED", b"x" * 1000)[4:]
    for length in range(len(whole)):
        with pytest.raises(FormatError):
            protowire.read_event(whole[:length])


async def test_a_frame_longer_than_many_chunks_comes_out_whole() -> None:
    long, short = protobytes.framed("ADDED", b"l" * 300_000), protobytes.framed("ADDED", b"s")
    data = short + long + short

    async def chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(data), 1000):
            yield data[at : at + 1000]

    frames = [frame async for batch in protowire.frames_of(chunks()) for frame in batch]
    assert frames == [short[4:], long[4:], short[4:]]
