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
from actions.run.spool.files import AppendOnly
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
    spooled,
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


@contextmanager
def a_fillable_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Disk]:
    """The spool's disk, as this process sees it."""
    disk, append = _Disk(), AppendOnly.append

    def refuse_if_full(self: AppendOnly, data: bytes) -> None:
        if disk.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(self, data)

    monkeypatch.setattr(AppendOnly, "append", refuse_if_full)
    yield disk


async def test_d05_what_had_no_room_is_taken_when_there_is_some(
    tmp_path: Path, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_fillable_disk(monkeypatch) as disk:
        folder = a_logged_run(tmp_path, sandbox, printing(LINES, pause=0.1))
        runner = asyncio.create_task(carry_out(folder))
        await until(lambda: len(texts(folder)) >= 3, "three lines")
        disk.is_full = True
        wait = asyncio.create_task(asyncio.to_thread(wait_for_note, folder, "Logs cannot be kept: "))
        await wait
        disk.is_full = False
        assert (await runner).state is RunState.SUCCEEDED
    assert (texts(folder), points(folder), markers(folder)) == (printed(LINES), LINES, [])
    await torn_down(folder)


async def test_d05_a_spool_that_cannot_be_begun_is_begun_later(
    tmp_path: Path, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_fillable_disk(monkeypatch) as disk:
        disk.is_full = True
        folder = a_logged_run(tmp_path, sandbox, printing(LINES, pause=0.2))
        runner = asyncio.create_task(carry_out(folder))
        await asyncio.to_thread(wait_for_note, folder, "Logs cannot be kept: ")
        disk.is_full = False
        assert (await runner).state is RunState.SUCCEEDED
    assert texts(folder) == printed(LINES)
    await torn_down(folder)


async def test_d05_what_is_lost_for_good_is_marked_and_said(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_fillable_disk(monkeypatch) as disk:
        folder = a_logged_run(tmp_path, sandbox, printing(10))
        runner = asyncio.create_task(carry_out(folder))
        await until(lambda: len(texts(folder)) >= 3, "three lines")
        disk.is_full = True
        await asyncio.to_thread(wait_for_note, folder, "Waiting for the last lines of its logs.")
        pod = spooled(folder)[0].pod
        await somebody.remove(ObjectRef("v1", "Pod", "default", pod))
        disk.is_full = False
        view = await runner
    assert view.state is RunState.SUCCEEDED
    said = view.stage("work").message
    assert f"Log of pod {pod}: incomplete, it could not be kept: No space left on device, from " in said
    assert "the log cannot be kept: No space left on device" in markers(folder)[-1]
    assert texts(folder) == printed(10)[: len(texts(folder))]
    await torn_down(folder)
