"""A run that moves to another machine keeps every invariant, and each one of a team sees what breaks it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from actions.base.errors import MissingError
from actions.run.takeover.takeover import _known_lease
from tests.schedules.audited import changes_of
from tests.schedules.history import Seen
from tests.schedules.inject import Elsewhere
from tests.schedules.invariants import Broken, violations_of
from tests.schedules.life import Life, Story
from tests.schedules.machine import Machine, a_machine
from tests.schedules.moving import Move
from tests.schedules.partition import Relay
from tests.schedules.schedule import (
    CUT_OFF,
    CUT_OFF_SEEDS,
    HOME,
    MOVES,
    OTHERS,
    TEAM_SEEDS,
    Fault,
    FaultKind,
    Moment,
    Schedule,
    schedule_of,
)
from tests.support.polling import wait

pytestmark = pytest.mark.kill

LOST = Fault(FaultKind.TAKE_OVER_LOST, Moment(stage="train", lines=10))


@pytest.fixture(scope="module")
def moved_life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Story, Machine]]:
    with a_machine(tmp_path_factory.mktemp("team"), has_store=True) as machine:
        yield Life(Schedule(-1, (LOST,), has_store=True), machine).play(), machine


def broken(story: Story, machine: Machine) -> set[Broken]:
    return {violation.broken for violation in violations_of(story, machine)}


def records_of(machine: Machine) -> list[Seen]:
    return [seen for seen in machine.history.seen() if seen.name.startswith("eksml-run-")]


def test_nothing_is_broken_by_a_move(moved_life: tuple[Story, Machine]) -> None:
    story, machine = moved_life
    assert [str(violation) for violation in violations_of(story, machine)] == []
    (moved,) = story.moves
    assert moved.origin is machine.hosts[0]
    assert story.view is not None
    assert story.view.epoch == 2
    assert [bool(host.requests()) for host in machine.hosts] == [True, True]


def test_a_record_that_the_home_lacks_or_that_it_has_twice_is_told(moved_life: tuple[Story, Machine]) -> None:
    story, machine = moved_life
    assert broken(replace(story, records=(*story.records, story.records[-1])), machine) == {Broken.HOME}
    without = replace(story, records=(*story.records[:4], *story.records[5:]))
    assert Broken.HOME in broken(without, machine)


def test_a_change_after_the_take_over_is_told(moved_life: tuple[Story, Machine]) -> None:
    story, machine = moved_life
    (moved,) = story.moves
    assert [bool(changes_of(machine, host)) for host in machine.hosts] == [True, True]
    for wrong in (
        replace(moved, at=moved.began_at - 1000.0),  # of the home
        replace(moved, line=0),  # of the cluster
        replace(moved, records=moved.records - 1),  # of its own journal
    ):
        assert broken(replace(story, moves=[wrong]), machine) == {Broken.FENCED}


def test_a_record_that_is_left_in_the_cluster_is_told(moved_life: tuple[Story, Machine]) -> None:
    story, machine = moved_life
    wait(lambda: records_of(machine), "a record in the history, whose watch may be late")
    seen = records_of(machine)[0]
    machine.history.objects[seen.uid] = replace(seen, gone_at=0.0)
    try:
        assert broken(story, machine) == {Broken.RECORD}
    finally:
        machine.history.objects[seen.uid] = seen


def test_a_request_from_a_machine_without_the_run_is_told(moved_life: tuple[Story, Machine]) -> None:
    story, machine = moved_life
    asked = Elsewhere("ben", "teardown", 0, has_folder=False)
    assert broken(replace(story, elsewhere=[asked]), machine) == {Broken.ELSEWHERE}


def test_the_seeds_of_a_team_have_something_of_everything_and_the_others_are_as_they_were() -> None:
    kinds = {fault.kind for seed in range(TEAM_SEEDS, TEAM_SEEDS + 40) for fault in schedule_of(seed).faults}
    assert kinds >= {*HOME, *MOVES, *OTHERS}
    kinds = {fault.kind for seed in range(CUT_OFF_SEEDS, CUT_OFF_SEEDS + 2) for fault in schedule_of(seed).faults}
    assert kinds >= {*CUT_OFF}
    before = schedule_of(34)
    assert not before.has_store
    assert not {fault.kind for fault in before.faults} & {*HOME, *MOVES, *OTHERS, *CUT_OFF}
    team = {fault.kind for seed in range(TEAM_SEEDS, CUT_OFF_SEEDS) for fault in schedule_of(seed).faults}
    assert not team & {*CUT_OFF}


async def test_what_is_sent_while_no_packet_arrives_is_lost_with_its_connection() -> None:
    echoes: set[asyncio.Task[None]] = set()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        echoes.add(task)
        with suppress(ConnectionError):
            while data := await reader.read(100):
                writer.write(data)
        await closed(writer)

    async def closed(writer: asyncio.StreamWriter) -> None:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server, asyncio.timeout(120):
        relay = Relay(server.sockets[0].getsockname()[1])
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            writer.write(b"heard")
            assert await reader.readexactly(5) == b"heard"
            relay.hush()
            writer.write(b"lost")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.2)
            relay.flow()
            with suppress(ConnectionError):
                assert await reader.read() == b""
            await closed(writer)
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            writer.write(b"again")
            assert await reader.readexactly(5) == b"again"
            await closed(writer)
        finally:
            await asyncio.to_thread(relay.end)
            await asyncio.gather(*echoes)  # they read of the relay's end, and close


class Answered:
    """A command that has ended."""

    def __init__(self, text: str) -> None:
        self._text = text

    def code(self) -> int:
        return 1

    def text(self) -> str:
        return self._text


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_run_that_its_lost_machine_never_told_the_home_of_is_not_waited_for(*, is_gone: bool) -> None:
    """The refusal is the program's own sentence."""
    nothing: Any = None
    with pytest.raises(MissingError) as refusal:
        asyncio.run(_known_lease(cast(Any, SimpleNamespace(lease=nobody, address="s3://team")), "run-1"))
    move = Move(nothing, cast(Any, SimpleNamespace(user="ben")), "run-1", is_gone=is_gone)
    move._command = cast(Any, Answered(refusal.value.message))
    move.go_on()
    assert (move.is_done, move.is_given_up) == (False, is_gone)


async def nobody(_: str) -> None: ...
