"""D5, F7: a full disk fails no stage and costs neither lines nor points of pods that are still there."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actions.cluster.objects.client import ObjectRef
from actions.run.output.reader import OutputReader
from actions.run.output.segments import StreamWriter
from actions.run.state.view import RunState
from actions.sandbox.locate import RunningSandbox
from tests.faults.somebody import Somebody
from tests.faults.watched import (
    a_logged_run,
    begun,
    has_succeeded,
    markers,
    points,
    printed,
    printing,
    taken_down,
    texts,
    wait_for_note,
)
from tests.support.polling import until
from tests.support.smalldisk import a_small_disk
from tests.support.smallrun import carry_out, torn_down

SANDBOX_SPEED = 1.0
LINES = 30


async def test_d05_a_full_disk_costs_no_line_and_no_point(tmp_path: Path, sandbox: RunningSandbox) -> None:
    with a_small_disk(tmp_path / "disk") as disk:
        folder = a_logged_run(disk.path, sandbox, printing(LINES))
        begun(folder)
        disk.fill()
        wait_for_note(folder, "Logs cannot be kept: No space left on device")
        kept = len(texts(folder))
        disk.free()
        has_succeeded(folder)
        assert kept < LINES
        assert texts(folder) == printed(LINES)
        assert points(folder) == LINES
        assert markers(folder) == []
        taken_down(folder)


class _Disk:
    is_full = False
    fills_at = b""
    """It is full from the write on that has this, however many lines a busy machine writes at once."""
    refuses = b""
    """The only writes that it has no room for have this; empty for all."""

    def has_room(self, data: bytes) -> bool:
        self.is_full = self.is_full or bool(self.fills_at and self.fills_at in data)
        return not self.is_full or self.refuses not in data

    def free(self) -> None:
        self.is_full, self.fills_at = False, b""


@contextmanager
def a_fillable_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Disk]:
    """The output's disk, as this process sees it."""
    disk, append = _Disk(), StreamWriter.append

    def refuse_if_full(self: StreamWriter, data: bytes) -> None:
        if not disk.has_room(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(self, data)

    monkeypatch.setattr(StreamWriter, "append", refuse_if_full)
    yield disk


async def test_d05_what_had_no_room_is_taken_when_there_is_some(
    tmp_path: Path, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_fillable_disk(monkeypatch) as disk:
        disk.fills_at = b"step=3 "
        folder = a_logged_run(tmp_path, sandbox, printing(LINES, pause=0.1))
        runner = asyncio.create_task(carry_out(folder))
        await asyncio.to_thread(wait_for_note, folder, "Logs cannot be kept: ")
        assert len(texts(folder)) <= 3
        disk.free()
        assert (await runner).state is RunState.SUCCEEDED
    assert (texts(folder), points(folder), markers(folder)) == (printed(LINES), LINES, [])
    await torn_down(folder)


async def test_d05_an_output_that_cannot_be_begun_is_begun_later(
    tmp_path: Path, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_fillable_disk(monkeypatch) as disk:
        disk.is_full = True
        folder = a_logged_run(tmp_path, sandbox, printing(LINES, pause=0.2))
        runner = asyncio.create_task(carry_out(folder))
        await asyncio.to_thread(wait_for_note, folder, "Logs cannot be kept: ")
        disk.free()
        assert (await runner).state is RunState.SUCCEEDED
    assert texts(folder) == printed(LINES)
    await torn_down(folder)


async def test_d05_what_is_lost_for_good_is_marked_and_said(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_fillable_disk(monkeypatch) as disk:
        disk.fills_at, disk.refuses = b"step=3 ", b"step="
        folder = a_logged_run(tmp_path, sandbox, printing(10))
        runner = asyncio.create_task(carry_out(folder))
        await asyncio.to_thread(wait_for_note, folder, "Waiting for the last lines of its logs.")
        pod = OutputReader(folder, "work").pod_of(0)
        await somebody.remove(ObjectRef("v1", "Pod", "default", pod))
        # lines that were on their way would be kept if there was room before its end is known
        await until(lambda: markers(folder), "the mark of the gap")
        disk.free()
        view = await runner
    assert view.state is RunState.SUCCEEDED
    kept, said = texts(folder), view.stage("work").message
    assert len(kept) <= 3
    assert kept == printed(10)[: len(kept)]
    begin = ", from " if kept else ""
    assert f"Log of pod {pod}: incomplete, it could not be kept: No space left on device{begin}" in said
    assert "the log cannot be kept: No space left on device" in markers(folder)[-1]
    await torn_down(folder)
