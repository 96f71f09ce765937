"""The output of the containers of the NeMo blueprint, and what they leave behind."""

from __future__ import annotations

import math
import re
from functools import cache

import pytest

from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import bind
from actions.blueprint.parts import Scalar
from actions.blueprint.render import stage_manifests
from actions.cluster.diagnose.engine import diagnose
from actions.cluster.diagnose.evidence import Evidence, Log
from actions.cluster.diagnose.rules.last_error import last_error
from actions.sandbox.kubelet.images import program_of
from actions.sandbox.programs.files import FileView, MemoryVolume
from actions.sandbox.programs.nemo.gpt_settings import gpt_settings
from actions.sandbox.programs.program import ContainerView
from actions.sandbox.programs.pytorch import lightning_bar
from actions.telemetry.log_reader import read_log
from tests.unit.sandbox.programs.containers import MOMENT, Outcome, context, run

_OWN_IMAGE = "111122223333.dkr.ecr.us-west-2.amazonaws.com/nemo-aws@sha256:" + "a" * 64


@cache
def the_blueprint() -> Blueprint:
    return load_blueprint(shipped_blueprints() / "nemo-gpt3-5b")


def with_vocabulary() -> MemoryVolume:
    volume = MemoryVolume()
    for name in ("vocab.json", "merges.txt"):
        volume.put(f"/data/bpe/{name}", b"{}")
    return volume


def with_tokens(files: int = 6) -> MemoryVolume:
    volume = with_vocabulary()
    for number in range(files):
        for ending in ("bin", "idx"):
            volume.put(f"/data/my-gpt3_{number:02d}_text_document.{ending}", b"0")
    return volume


def a_trainer(
    volume: MemoryVolume | None = None, *, worker: int = 0, image: str = _OWN_IMAGE, **given: Scalar
) -> ContainerView:
    """The container of a worker as the blueprint renders it, with few steps."""
    short: dict[str, Scalar] = {
        "max_steps": 40,
        "warmup_steps": 4,
        "val_check_interval": 20,
        "limit_val_batches": 10,
        "global_batch_size": 32,
        "image_source": "given",
        "image": _OWN_IMAGE,
    }
    blueprint = the_blueprint()
    binding = bind(blueprint, {**short, **given})
    job = next(
        item
        for item in stage_manifests(blueprint, "train", binding, run_id="r", outputs={})
        if item["kind"] == "PyTorchJob"
    )
    (container,) = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    limits = container["resources"]["limits"]
    return ContainerView(
        namespace="default",
        pod=f"nlp-training-worker-{worker}",
        name="pytorch",
        image=image,
        argv=(*container["command"], *container["args"]),
        environment={one["name"]: one["value"] for one in container["env"] if "value" in one},
        files=FileView({"/fsx_shared": with_tokens() if volume is None else volume}),
        gpus=tuple(range(int(limits["nvidia.com/gpu"]))),
        efa_interfaces=int(limits["vpc.amazonaws.com/efa"]),
        instance_type=binding.text("instance_type"),
        started_at=MOMENT,
        seed=1,
    )


def a_process(script: str, *words: str, volume: MemoryVolume, rank: int = 0, size: int = 1) -> ContainerView:
    """One process of the preparation, as mpirun starts it."""
    return ContainerView(
        namespace="default",
        pod="nlp-data-prep-worker-0",
        name="nlp-data-prep",
        image=_OWN_IMAGE,
        argv=("python3", script, *words),
        environment={"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(size)},
        files=FileView({"/fsx_shared": volume}),
    )


def a_look(step: str, last: int, volume: MemoryVolume) -> ContainerView:
    """The look at the files of one step, from number 0 on."""
    return a_process("/config/verify.py", "/fsx_shared/data", "0", str(last), step, volume=volume)


def code_of(outcome: Outcome) -> str:
    """Return the diagnosis of an output, as a code."""
    findings = diagnose(Evidence(logs=(Log(text=outcome.text),)))
    return findings[0].code.value if findings else ""


def test_a_bar_is_drawn_as_the_captured_one() -> None:
    metrics: dict[str, float | str] = {
        "v_num": "",
        "reduced_train_loss": 2.6,
        "global_step": 2000.0,
        "consumed_samples": 1.28e6,
        "train_step_timing in s": 1.9,
        "val_loss": 2.8,
    }
    drawn = lightning_bar(2000, 603_000, elapsed_seconds=3797, metrics=metrics, is_nemos=True)
    assert drawn.startswith("Epoch 0: :   0%|          | 2000/603000 [1:03:17<31")
    assert drawn.endswith(
        ", v_num=, reduced_train_loss=2.600, global_step=2e+3, consumed_samples=1.28e+6, train_step_timing in s=1.900, "
        "val_loss=2.800]"
    )


def test_the_published_run_takes_about_the_time_that_its_configuration_allows_it() -> None:
    settings = gpt_settings(a_trainer(nodes=16, max_steps=75000, global_batch_size=2048, micro_batch_size=4))
    assert 5 * 86400 < settings.max_steps * settings.step_seconds < 7 * 86400


@pytest.mark.parametrize(("micro", "tensor", "fits"), [(2, 1, True), (4, 1, True), (8, 1, False), (8, 4, True)])
def test_a_micro_batch_fits_or_does_not(micro: int, tensor: int, fits: bool) -> None:
    container = a_trainer(micro_batch_size=micro, tensor_parallel=tensor, global_batch_size=128)
    outcome = run(program_of(context(container)))
    assert outcome.exit_code == (0 if fits else 1)
    assert code_of(outcome) == ("" if fits else "GPU_OOM")


def test_a_missing_file_of_the_data_is_named_before_anything_starts() -> None:
    outcome = run(program_of(context(a_trainer(with_tokens(4)))))
    assert outcome.exit_code == 1
    assert outcome.seconds < 1
    assert "my-gpt3_04_text_document.bin is missing or empty" in outcome.err


def test_a_learning_rate_far_too_high_ends_in_nan() -> None:
    points = read_log(run(program_of(context(a_trainer(learning_rate=0.05)))).text.encode())
    values = [point.value for point in points if point.metric == "train_loss"]
    assert math.isnan(values[-1])
    assert not math.isnan(values[0])


def test_a_lost_peer_is_noticed_by_the_watchdogs_after_ten_minutes() -> None:
    outcome = run(program_of(context(a_trainer())), lose_a_peer_after=50)
    assert outcome.exit_code == 1
    assert outcome.seconds > 600
    assert code_of(outcome) == "NCCL_TIMEOUT"
    assert "exitcode  : -6 (SIGABRT)" in outcome.err


def test_a_second_attempt_goes_on_from_the_newest_checkpoint() -> None:
    volume = with_tokens()
    run(program_of(context(a_trainer(volume))), for_seconds=56)
    second = run(program_of(context(a_trainer(volume))))
    assert "Restored all states from the checkpoint of step 20" in second.out
    assert re.findall(r"global step (\d+): 'val_loss'", second.err) == ["40"]


def test_a_missing_vocabulary_is_only_noticed_by_the_look_at_the_files() -> None:
    volume = MemoryVolume()
    volume.put("/data/00.jsonl", b"{}")
    step = run(program_of(context(a_process("/x/pile_dataprep/preprocess.py", "file_numbers=0-0", volume=volume))))
    assert step.exit_code == 0
    assert "bpe/vocab.json" in step.err
    look = run(program_of(context(a_look("preprocess", 0, volume))))
    assert look.exit_code == 1
    assert "2 of 2 files are missing after preprocess" in look.err


def test_a_download_that_is_refused_is_noticed_before_anything_is_extracted() -> None:
    volume, words = MemoryVolume(), ("file_numbers=0-1", "the_pile_url=https://example.com/pile/")
    step = run(program_of(context(a_process("/x/pile_dataprep/download.py", *words, volume=volume))))
    look = run(program_of(context(a_look("download", 1, volume))))
    assert (step.exit_code, look.exit_code) == (0, 1)
    assert last_error(Evidence(logs=(Log(text=step.text + look.text),))).startswith("curl: (22) The requested URL")
