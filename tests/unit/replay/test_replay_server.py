"""The answers of a replay: lists, objects and watches as they were at the moment, failures too; no changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actions.base.errors import MissingError, RefusedError, UnreachableError
from actions.capture.entries import Answered, AnswerPart
from actions.cluster.auth.session import KubeSession
from actions.cluster.http.errors import ApiMissingError
from actions.cluster.logs.batch import LogBatch
from actions.cluster.logs.follow import ContainerLog, LogFollower, read_log
from actions.cluster.remote.exec import run_in_pod
from actions.cluster.state.cluster_state import ClusterState
from actions.replay.replay import Replay
from tests.support.captures import SERVER, MadeCapture, MovedClock, event, thing
from tests.support.polling import until

PODS = "/api/v1/pods"


class Shown:
    """A replay with a session, at a moment."""

    def __init__(self, made: MadeCapture, folder: Path) -> None:
        self.moved = MovedClock()
        self.replay = Replay(made.index(folder), clock=self.moved)
        self.session: KubeSession = self.replay.session()

    def at(self, seconds: float) -> Shown:
        self.replay.clock.seek(seconds)
        return self

    async def names(self, path: str = PODS, **query: str) -> list[str]:
        found = await self.session.get(path, query)
        return [item["metadata"]["name"] for item in found["items"]]


@contextmanager
def shown(made: MadeCapture, folder: Path) -> Iterator[Shown]:
    it = Shown(made, folder)
    try:
        yield it
    finally:
        it.replay.close()


def a_life() -> MadeCapture:
    """Pods a and b from second 1; c comes at 2, a goes at 3, b changes at 4; the stream lasts to 100."""
    made = MadeCapture()
    number = made.watch(1.0, PODS, [thing("a", metadata={"labels": {"app": "x"}}), thing("b", namespace="other")])
    made.part(2.0, number, event("ADDED", thing("c", metadata={"labels": {"app": "x"}})))
    made.part(3.0, number, event("DELETED", thing("a")))
    made.part(4.0, number, event("MODIFIED", thing("b", namespace="other", status={"phase": "Failed"})))
    made.end(100.0, number, error="cut")
    return made


@pytest.mark.parametrize(("at", "names"), [(1.5, ["a", "b"]), (2.5, ["a", "b", "c"]), (3.5, ["b", "c"])])
async def test_a_list_is_as_it_was_at_the_moment(at: float, names: list[str], tmp_path: Path) -> None:
    with shown(a_life(), tmp_path) as it:
        assert sorted(await it.at(50).names()) == ["b", "c"]
        assert sorted(await it.at(at).names()) == names


async def test_a_list_is_narrowed_as_the_server_would(tmp_path: Path) -> None:
    with shown(a_life(), tmp_path) as it:
        it.at(5)
        assert await it.names("/api/v1/namespaces/other/pods") == ["b"]
        assert await it.names(labelSelector="app=x") == ["c"]
        assert await it.names(labelSelector="app in (x, y),app") == ["c"]
        assert await it.names(labelSelector="app!=x") == ["b"]
        assert await it.names(labelSelector="!app") == ["b"]
        assert await it.names(labelSelector="app notin (z)") == ["b", "c"]
        assert await it.names(fieldSelector="status.phase=Failed") == ["b"]


async def test_one_object_is_as_it_was_at_the_moment(tmp_path: Path) -> None:
    with shown(a_life(), tmp_path) as it:
        path = "/api/v1/namespaces/default/pods/a"
        found = await it.at(2).session.get(path)
        assert (found["kind"], found["apiVersion"], found["metadata"]["uid"]) == ("Pod", "v1", "uid-a")
        with pytest.raises(ApiMissingError) as caught:
            await it.at(3).session.get(path)
        assert caught.value.status.reason == "NotFound"


async def test_the_state_of_the_cluster_follows_the_replay(tmp_path: Path) -> None:
    made = a_life()
    made.watch(1.0, "/api/v1/nodes", [thing("n", namespace="", kind="Node")])
    with shown(made, tmp_path) as it:
        state = ClusterState(it.session, clock=it.replay.clock)
        task = asyncio.create_task(state.run())
        await asyncio.sleep(0)
        assert not state.snapshot().is_complete  # second 0: nothing was listed yet
        it.at(1.0)
        await until(lambda: set(state.snapshot().pods) == {"default/a", "other/b"}, "the first list")
        assert state.snapshot().is_complete
        it.at(3.2)
        await until(lambda: set(state.snapshot().pods) == {"default/c", "other/b"}, "the changes")
        await until(lambda: it.replay.is_caught_up, "everything to be handed over")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_second_list_of_the_same_resource_removes_what_is_gone(tmp_path: Path) -> None:
    made = a_life()
    again = made.watch(10.0, PODS, [thing("d")])
    made.part(11.0, again, event("ADDED", thing("e")))
    with shown(made, tmp_path) as it:
        it.at(5)
        events: list[tuple[str, str]] = []

        async def follow() -> None:
            query = {"watch": "true", "sendInitialEvents": "true"}
            async with it.session.stream(PODS, query=query) as stream:
                async for chunk in stream:
                    for line in chunk.splitlines():
                        item = json.loads(line)
                        events.append((item["type"], item["object"]["metadata"].get("name", "")))

        task = asyncio.create_task(follow())
        await until(lambda: ("BOOKMARK", "") in events, "the list")
        assert sorted(events[:-1]) == [("ADDED", "b"), ("ADDED", "c")]
        del events[:]
        it.at(12)
        await until(lambda: len(events) == 4, "the second list")
        assert sorted(events[:2]) == [("DELETED", "b"), ("DELETED", "c")]
        assert [name for _, name in events[2:]] == ["d", "e"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await it.names() == ["d", "e"]


async def test_a_list_in_pages_and_the_watch_after_it_are_one_resource(tmp_path: Path) -> None:
    made = MadeCapture()
    page = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "5", "continue": "next"}}
    first = {key: value for key, value in thing("a").items() if key == "metadata"}
    made.answer(1.0, PODS, page | {"items": [first]}, limit="1")
    rest = page | {"metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"name": "b", "namespace": "z"}}]}
    made.answer(1.1, PODS, rest, **{"limit": "1", "continue": "next"})
    number = made.ask(1.2, PODS, watch="true", resourceVersion="5")
    made.records.append(Answered(at=1.2, id=number))
    made.part(2.0, number, event("ADDED", thing("c")))
    with shown(made, tmp_path) as it:
        assert await it.at(1.5).names() == ["a", "b"]
        assert (await it.session.get("/api/v1/namespaces/default/pods/a"))["kind"] == "Pod"
        assert await it.at(3).names() == ["a", "b", "c"]


async def test_an_outage_is_an_outage_again(tmp_path: Path) -> None:
    made = MadeCapture()
    number = made.watch(1.0, PODS, [thing("a")])
    made.end(5.0, number, error="unreachable", message="The connection broke.")
    made.watch(9.0, PODS, [thing("b")])
    with shown(made, tmp_path) as it:
        assert await it.at(2).names() == ["a"]
        with pytest.raises(UnreachableError, match="The connection broke"):
            await it.at(6).names()
        assert await it.at(10).names() == ["b"]


async def test_a_kind_that_was_not_served_is_not_served_again(tmp_path: Path) -> None:
    made = MadeCapture()
    number = made.ask(1.0, "/apis/ray.io/v1/rayjobs", watch="true", sendInitialEvents="true")
    made.end(1.1, number, error="api", code=404, reason="NotFound", message="the server could not find it")
    with shown(made, tmp_path) as it, pytest.raises(ApiMissingError, match="could not find it"):
        await it.at(2).session.get("/apis/ray.io/v1/rayjobs")


async def test_other_answers_are_those_of_the_moment(tmp_path: Path) -> None:
    made = MadeCapture()
    made.answer(5.0, "/version", {"gitVersion": "v1.33"})
    made.answer(9.0, "/version", {"gitVersion": "v1.34"})
    made.end(20.0, 99)
    with shown(made, tmp_path) as it:
        for at, version in ((0.0, "v1.33"), (6.0, "v1.33"), (10.0, "v1.34")):
            assert await it.at(at).session.get("/version") == {"gitVersion": version}
        with pytest.raises(MissingError, match="/apis is not in the capture"):
            await it.session.get("/apis")


async def test_what_was_withheld_is_not_there(tmp_path: Path) -> None:
    made = MadeCapture()
    made.end(2.0, made.ask(1.0, "/api/v1/secrets", form="call"), error="withheld")
    with shown(made, tmp_path) as it, pytest.raises(MissingError, match="it holds secrets"):
        await it.at(3).session.get("/api/v1/secrets")


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/api/v1/namespaces/a/pods/b"), ("POST", "/api/v1/pods")])
async def test_nothing_is_changed(method: str, path: str, tmp_path: Path) -> None:
    with shown(a_life(), tmp_path) as it:
        with pytest.raises(RefusedError, match="This is a replay"):
            await it.at(2).session.request(method, path, body=b"{}")
        with pytest.raises(RefusedError, match="This is a replay: portforward"):
            async with it.session.websocket("/api/v1/namespaces/a/pods/b/portforward"):
                pass


def logged(second: int, text: str) -> bytes:
    return f"2026-11-23T14:00:{second:02}.000000000Z {text}\n".encode()


def a_log() -> MadeCapture:
    made = a_life()
    path = "/api/v1/namespaces/default/pods/a/log"
    first = made.ask(1.0, path, container="main", timestamps="true", follow="true", tailLines="2")
    made.part(1.0, first, logged(10, "ten") + logged(11, "eleven"))
    made.part(2.0, first, logged(12, "twelve"))
    made.end(2.5, first, error="unreachable", message="cut")
    second = made.ask(3.0, path, container="main", timestamps="true", follow="true", sinceTime="2026-11-23T14:00:12Z")
    made.part(3.0, second, logged(12, "twelve") + logged(12, "twelve again") + logged(13, "thir"))
    made.part(4.0, second, logged(14, "fourteen")[:20])
    made.part(5.0, second, logged(14, "fourteen")[20:])
    made.end(90.0, second, error="cut")
    return made


async def test_each_line_of_a_log_comes_once_and_when_it_came(tmp_path: Path) -> None:
    with shown(a_log(), tmp_path) as it:
        source = ContainerLog("default", "a", "main")
        for at, texts in (
            (1.5, ["ten", "eleven"]),
            (2.2, ["ten", "eleven", "twelve"]),
            (4.5, ["ten", "eleven", "twelve", "twelve again", "thir"]),
            (6.0, ["ten", "eleven", "twelve", "twelve again", "thir", "fourteen"]),
        ):
            lines = await read_log(it.at(at).session, source)
            assert [line.text for line in lines] == texts
        assert [line.text for line in await read_log(it.session, source, tail_lines=2)] == ["thir", "fourteen"]


async def test_a_log_is_followed_through_the_replay(tmp_path: Path) -> None:
    texts: list[str] = []

    def take(batch: LogBatch) -> None:
        texts.extend(line.text for line in batch)

    running = {"state": {"running": {"startedAt": "2026-11-23T14:00:00Z"}}, "name": "main"}
    pod = thing("a", status={"phase": "Running", "containerStatuses": [running]}, spec={"restartPolicy": "Never"})
    made = a_log()
    made.part(1.2, next(record.id for record in made.records if isinstance(record, AnswerPart)), event("MODIFIED", pod))
    made.records.sort(key=lambda record: record.at)
    with shown(made, tmp_path) as it:
        it.at(1.5)
        source = ContainerLog("default", "a", "main")
        follower = LogFollower(it.session, source, on_lines=take, clock=it.replay.clock)
        task = asyncio.create_task(follower.run())
        await until(lambda: texts == ["ten", "eleven"], "the first lines")
        it.at(2.0)
        await until(lambda: texts == ["ten", "eleven", "twelve"], "one more")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_log_that_was_later_read_from_its_begin_is_shown_whole_from_then_on(tmp_path: Path) -> None:
    made = a_log()
    path = "/api/v1/namespaces/default/pods/a/log"
    whole = made.ask(10.0, path, container="main", timestamps="true", follow="true")
    made.part(10.0, whole, b"".join(logged(second, f"line {second}") for second in range(5, 16)))
    with shown(made, tmp_path) as it:
        source = ContainerLog("default", "a", "main")
        assert len(await read_log(it.at(9).session, source)) == 6
        assert (await read_log(it.at(11).session, source))[0].text == "line 5"


async def test_a_program_prints_what_it_printed(tmp_path: Path) -> None:
    made = a_life()
    path = "/api/v1/namespaces/default/pods/a/exec"
    streams = {"stdin": "false", "stdout": "true", "stderr": "true", "tty": "false"}
    for at, text in ((1.5, b"GPU 10 %"), (2.5, b"GPU 90 %")):
        number = made.ask(at, path, form="exec", container="main", **streams, command="nvidia-smi")
        made.records.append(Answered(at=at, id=number, content_type="v5.channel.k8s.io"))
        made.part(at, number, b"\x01" + text)
        made.part(at, number, b'\x03{"status":"Success"}')
        made.end(at, number)
    with shown(made, tmp_path) as it:

        async def output() -> bytes:
            return (await run_in_pod(it.session, "default", "a", "main", ["nvidia-smi"])).stdout

        it.at(2.0)
        assert await output() == b"GPU 10 %"
        it.at(3.0)
        assert await output() == b"GPU 90 %"
        it.at(1.0)
        with pytest.raises(MissingError, match="is not in the capture"):
            await output()


def a_table(name: str) -> dict[str, Any]:
    row = {"cells": [name, 1], "object": {"metadata": {"name": name, "namespace": "default", "uid": name}}}
    columns = [{"name": "Name", "type": "string", "format": "name"}, {"name": "Data", "type": "integer"}]
    return {"kind": "Table", "metadata": {"resourceVersion": "5"}, "columnDefinitions": columns, "rows": [row]}


async def test_a_table_is_answered_as_a_table(tmp_path: Path) -> None:
    made = MadeCapture()
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    path = "/api/v1/configmaps"
    listed = made.ask(1.0, path, form="call", accept=accept, limit="500")
    made.part(1.0, listed, json.dumps(a_table("a")).encode())
    made.end(1.0, listed)
    number = made.ask(1.1, path, accept=accept, watch="true", resourceVersion="5")
    made.records.append(Answered(at=1.1, id=number))
    made.part(2.0, number, event("ADDED", a_table("b")))
    with shown(made, tmp_path) as it:
        body = json.loads(await it.at(3).session.request("GET", path, query={"limit": "500"}, accept=accept))
        assert [row["cells"] for row in body["rows"]] == [["a", 1], ["b", 1]]
        assert [column["name"] for column in body["columnDefinitions"]] == ["Name", "Data"]


async def test_numbers_and_bodies_that_mean_nothing_are_passed_over(tmp_path: Path) -> None:
    made = a_life()
    made.part(5.0, 777, b"nobody asked")
    made.end(5.0, 778)
    number = made.watch(6.0, "/api/v1/events")
    made.part(6.5, number, b'not json\n{"type":"ADDED"}\n{"type":"ADDED","object":{"metadata":{"name":5}}}\n[]\n\n')
    made.part(6.6, number, b'{"type":"SURPRISE","object":{"metadata":{"name":"x"}}}\n')
    made.answer(7.0, "/api/v1/nodes", ["no list"], limit="1")
    with shown(made, tmp_path) as it:
        assert await it.at(8).names() == ["b", "c"]
        assert await it.names("/api/v1/events") == []
        assert it.replay.index.cluster_at(0) is not None
        assert it.session.server == SERVER
