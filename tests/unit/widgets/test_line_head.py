"""The beginnings that lines of a log have in common are left out, and no more than that."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest
from textual.app import App, ComposeResult

from tests.support.waiting import wait_for
from tui.textual_private import screen_text
from tui.widgets.line_level import head_length, head_parts
from tui.widgets.log import LogView
from tui.widgets.log_buffer import BufferedLine, LogBuffer

NCCL = [
    "esm1nv-pretraining-worker-5:96:407 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa",
    "esm1nv-pretraining-worker-5:96:408 [0] NCCL INFO Channel 00/02 :    0   1",
    "esm1nv-pretraining-worker-5:96:407 [0] NCCL INFO Using network AWS Libfabric",
    "esm1nv-pretraining-worker-5:96:407 [0] NCCL INFO comm 0x55d0 rank 5 nranks 8 - Init COMPLETE",
]


def shown(lines: Sequence[str]) -> list[str]:
    parts = [head_parts(line) for line in lines]
    return [line[head_length(parts[at], parts[:at]) :] for at, line in enumerate(lines)]


@pytest.mark.parametrize(
    ("lines", "rest"),
    [
        (NCCL[:3], "Using network AWS Libfabric"),
        ([f"[NeMo I 2026-11-28 13:15:1{n} {m}:85] Go" for n, m in enumerate(("preprocess", "a", "b"))], "Go"),
        ([f"(RayTrainWorker pid=2216, ip=100.64.14.147) epoch {n}" for n in range(3)], "epoch 2"),
        (["[2026-11-28 13:15:16,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, lr=1"] * 3, "step=10, lr=1"),
        ([f"I1128 13:15:1{n}.123456 140123 file.cc:12{n}] ready" for n in range(3)], "ready"),
        ([f"[1,0]<stdout>: # line {n}" for n in range(3)], "# line 2"),
        ([f"[rank0]:   File {n}" for n in range(3)], "  File 2"),
        ([f"2026-11-28T13:15:1{n}.5Z INFO loaded" for n in range(3)], "loaded"),
        ([f"100.64.14.147: line {n}" for n in range(3)], "line 2"),
    ],
)  # fmt: skip
def test_a_head_that_lines_before_have_too_is_left_out(lines: list[str], rest: str) -> None:
    found = shown(lines)
    assert found[:2] == lines[:2], "the first ones have it"
    assert found[2] == rest


@pytest.mark.parametrize(
    "lines",
    [
        [f"[Epoch 3/10] [Step {n}] loss=2.{n}" for n in range(5)],
        [f"Epoch 1 Step {n}00 loss 3.{n}" for n in range(5)],
        [f"Training: {n}%|###" for n in range(5)],
        ["[2026-11-28 13:15:16,123] [WARNING] slow"] * 2 + ["[ERROR] down"] * 3,
        ["[NeMo W 2026-11-28 13:15:16 x:1] deprecated"] * 5,
        [f"[rank{n}]: Traceback" for n in range(5)],
        ["2026-11-28 13:15:16 done", "loss 3", "[a] x", "(b) y"],
        ["-", "", "[only a head] "],
    ],
)
def test_what_tells_of_the_work_or_stands_in_one_line_alone_stays(lines: list[str]) -> None:
    assert [line[-12:] for line in shown(lines)] == [line[-12:] for line in lines]
    assert not any(shown(lines)[at] == "" for at, line in enumerate(lines) if line)
    assert all(
        word in " ".join(shown(lines)) for word in ("[Step", "WARNING", "NeMo W", "rank4") if word in " ".join(lines)
    )


class LogApp(App[None]):
    def __init__(self, buffer: LogBuffer) -> None:
        super().__init__()
        self.view = LogView(buffer)

    def compose(self) -> ComposeResult:
        yield self.view


async def test_the_messages_are_on_a_narrow_screen_and_the_text_stays_whole() -> None:
    """Of 57 cells the head took 56: all lines looked alike."""
    buffer, ticks = LogBuffer(), count(1)
    app = LogApp(buffer)
    async with app.run_test(size=(60, 8)) as pilot:
        buffer.extend([BufferedLine(text, source="worker-5", at_ns=next(ticks)) for text in NCCL])
        app.view.refresh_data()
        await wait_for(pilot, lambda: "…comm 0x55d0 rank 5" in screen_text(app), "the message")
        assert buffer.line(3).text == NCCL[3], "what is copied, saved and searched"
        app.view.search("worker-5:96:407")
        await wait_for(pilot, lambda: screen_text(app).count("esm1nv-pretraining-worker-5:96:407") == 3, "found")
        app.view.search("")
        await wait_for(pilot, lambda: "…comm 0x55d0" in screen_text(app), "the messages")
        await pilot.press("left")
        await wait_for(pilot, lambda: screen_text(app).count("esm1nv-pretraining") == 4, "whole lines")
        await pilot.press("right")
        await wait_for(pilot, lambda: "…comm 0x55d0" in screen_text(app), "the messages again")
        await pilot.press("W")
        await wait_for(pilot, lambda: screen_text(app).count("esm1nv-pretraining") == 4, "wrapped lines are whole")
