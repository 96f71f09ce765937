"""The output of the containers of the BioNeMo blueprint, and what they leave behind."""

from __future__ import annotations

import re

from actions.sandbox.kubelet.images import program_of
from actions.sandbox.programs.bionemo.esm1nv import train
from actions.sandbox.programs.files import MemoryVolume
from actions.sandbox.programs.program import GpuLoad
from actions.sandbox.programs.pytorch import lightning_bar, number
from actions.telemetry.log_reader import read_log
from tests.unit.sandbox.programs.containers import TRAINING, a_container, context, run, with_dataset

_PREPARE = ("python3", "-c", 'from bionemo.data import UniRef50Preprocess\nUniRef50Preprocess(root_directory="/fsx")')


def _losses(text: str) -> list[float]:
    return [float(value) for value in re.findall(r"reduced_train_loss=([\d.]+)", text)]


def test_the_data_job_prints_its_phases_in_order_and_leaves_three_splits() -> None:
    volume = MemoryVolume()
    container = a_container("uniref50-download-x", _PREPARE, volume=volume, gpus=(), NUM_CSV_FILES="5")
    outcome = run(program_of(context(container)))
    assert outcome.exit_code == 0
    words = (
        "Downloading file from",
        "Extracting",
        "processing complete",
        "Indexing",
        "Writing",
        "train",
        "val",
        "test",
    )
    places = [outcome.out.index(word) for word in words]
    assert places == sorted(places)
    assert all(line.startswith("[NeMo I 2025-02-24 1") for line in outcome.out.splitlines())
    assert len([path for path in volume.files if path.endswith(".csv")]) == 15


def test_a_second_data_job_takes_up_the_finished_download() -> None:
    volume = MemoryVolume()
    first = run(program_of(context(a_container("a", _PREPARE, volume=volume, NUM_CSV_FILES="2"))))
    second = run(program_of(context(a_container("b", _PREPARE, volume=volume, NUM_CSV_FILES="2"))))
    assert "already exists" in second.out
    assert second.seconds < first.seconds - 60


def test_rank_0_draws_bars_whose_loss_falls_and_saves_what_it_validates() -> None:
    volume = with_dataset()
    outcome = run(train(a_container(volume=volume)))
    assert outcome.exit_code == 0
    losses = _losses(outcome.text)
    assert sum(losses[-10:]) < sum(losses[:10])
    assert 2.4 < losses[-1] < losses[0] < 3.1
    assert re.findall(r"global step (\d+): 'val_loss'", outcome.err) == ["20", "40", "60"]
    assert "NCCL INFO" in outcome.out
    drawings = outcome.err.split("\r")
    assert any("| 1/210 [" in drawing for drawing in drawings)
    assert len([path for path in volume.files if path.startswith("/results/checkpoints/")]) == 3


def test_our_log_reader_finds_every_step_and_every_validation() -> None:
    log = run(train(a_container(volume=with_dataset()))).text.encode()
    points = read_log(log)
    assert [point.step for point in points if point.metric == "train_loss"] == list(range(60))
    assert len([point for point in points if point.metric == "val_loss"]) == 3


def test_the_same_seed_prints_the_same_run() -> None:
    assert run(train(a_container(volume=with_dataset()))) == run(train(a_container(volume=with_dataset())))


def test_other_ranks_draw_no_bar_and_take_as_long() -> None:
    first = run(train(a_container(volume=with_dataset())))
    other = run(train(a_container("esm1nv-pretraining-worker-5", volume=with_dataset())))
    assert "Epoch" not in other.text
    assert "rank 5 nranks 8" in other.out
    assert abs(first.seconds - other.seconds) < 5


def test_the_load_follows_the_work() -> None:
    loads = run(train(a_container(volume=with_dataset()))).loads
    assert loads[0] == GpuLoad(0, 0)
    assert GpuLoad(95, 3032) in loads
    assert loads[-1] == GpuLoad(0, 0)


def test_training_without_data_ends_with_a_traceback() -> None:
    outcome = run(train(a_container()))
    assert outcome.exit_code == 1
    assert "FileNotFoundError" in outcome.err


def test_more_processes_than_devices_end_with_an_invalid_device_ordinal() -> None:
    argv = tuple(word for word in TRAINING if "nproc" not in word)
    outcome = run(train(a_container(argv=argv, volume=with_dataset(), PET_NPROC_PER_NODE="4")))
    assert outcome.exit_code == 1
    assert "invalid device ordinal" in outcome.err


def test_a_lost_peer_restarts_the_group_from_the_last_checkpoint() -> None:
    outcome = run(train(a_container(volume=with_dataset())), lose_a_peer_after=22.0)
    assert outcome.exit_code == 0
    steps = [int(float(value)) for value in re.findall(r"global_step=([\d.]+)", outcome.err)]
    restart = next(index for index in range(1, len(steps)) if steps[index] < steps[index - 1])
    assert steps[restart] == 20


def test_a_lost_peer_without_restarts_left_is_the_end() -> None:
    container = a_container(volume=with_dataset(), PET_MAX_RESTARTS="0")
    assert run(train(container), lose_a_peer_after=22.0).exit_code == 1


def test_a_bar_is_drawn_as_the_captured_one() -> None:
    metrics: dict[str, float | str] = {
        "loss": "2.52",
        "v_num": "",
        "reduced_train_loss": 2.51,
        "global_step": 31_000.0,
        "consumed_samples": 254e6,
        "val_loss": 2.51,
    }
    drawn = lightning_bar(34103, 1_100_000, elapsed_seconds=19738, metrics=metrics)
    assert drawn.startswith("Epoch 0:   3%|▎         | 34103/1100000 [5:28:58<171:2")
    assert drawn.endswith(
        "1.73it/s, loss=2.52, v_num=, reduced_train_loss=2.510, global_step=3.1e+4, consumed_samples=2.54e+8, "
        "val_loss=2.510]"
    )


def test_numbers_are_padded_as_lightning_pads_them() -> None:
    assert [number(value) for value in (39.0, 2.5, 0.0, 1e6)] == ["39.00", "2.500", "0.000", "1e+6"]
