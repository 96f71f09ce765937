"""GPUs of all workers."""

from __future__ import annotations

from actions.telemetry.smi_reading import Gpu, SmiReading
from tests.support.builders import a_pod
from tui.live.accelerator_feed import WorkerReading
from tui.present.accelerators import gpu_rows, name_cell, summary
from tui.present.cells import text_of


def busy(name: str, *loads: int) -> WorkerReading:
    gpus = tuple(Gpu(index=index, name="NVIDIA A10G", util_pct=load) for index, load in enumerate(loads))
    return WorkerReading(a_pod(name), SmiReading(gpus), at=0.0)


def silent(name: str, error: str) -> WorkerReading:
    return WorkerReading(a_pod(name), SmiReading(error=error), at=0.0)


def test_the_slowest_rank_is_named() -> None:
    rows = gpu_rows([busy("train-worker-0", 98), busy("train-worker-1", 97), busy("train-worker-2", 20)])

    text = "\n".join(text_of(line) for line in summary(rows))

    assert "72% busy" in text
    assert "2 GPU 0 at 20%" in text
    assert "below the mean" in text


def test_an_even_load_blames_nobody() -> None:
    text = text_of(summary(gpu_rows([busy("a-0", 97), busy("a-1", 95)]))[1])

    assert "no rank lags behind" in text


def test_a_worker_without_an_answer_says_why() -> None:
    rows = gpu_rows([busy("a-0", 97), silent("a-1", "forbidden: pods/exec")])

    assert [text_of(name_cell(row)) for row in rows] == ["NVIDIA A10G", "forbidden: pods/exec"]
    assert "1 workers gave no answer" in text_of(summary(rows)[0])
