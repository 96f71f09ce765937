"""The TrainJob of TorchTitan against its command line, the published configuration, and what Kubeflow Trainer reads."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

from actions.blueprint.parameters import bind
from actions.blueprint.render import stage_manifests
from actions.blueprint.targets import Manifest
from tests import realnode
from tests.unit.blueprint.shipped import shipped
from tests.upstream.dockerfile import dockerfile_of
from tests.upstream.sources import source

_OUTPUTS = {"image": {"image": "registry.example/torchtitan@sha256:" + "0" * 64}}
_OURS = {
    "model.hf_assets_path": "/fsx/tokenizer",
    "checkpoint.enable": True,
}
"""Values that differ from the published ones: the folder, and that there are checkpoints."""


def objects(given: dict[str, Any], preset: str = "") -> dict[str, Manifest]:
    blueprint = shipped("torchtitan-llama3-8b")
    found = stage_manifests(blueprint, "train", bind(blueprint, given, preset=preset), run_id="r", outputs=_OUTPUTS)
    return {str(item["kind"]): item for item in found}


def pod(given: dict[str, Any] | None = None, preset: str = "") -> dict[str, Any]:
    (job,) = objects(given or {}, preset)["TrainingRuntime"]["spec"]["template"]["spec"]["replicatedJobs"]
    return dict(job["template"]["spec"]["template"]["spec"])


def arguments(given: dict[str, Any] | None = None, preset: str = "") -> dict[str, Any]:
    """The trainer's options with their values; a flag alone is true, and false with `no-` before its name."""
    (container,) = pod(given, preset)["containers"]
    words = container["args"][container["args"].index(source("torchtitan")["entry"]) + 1 :]
    pairs = [word.removeprefix("--").partition("=") for word in words]
    return {
        name.replace(".no-", "."): yaml.safe_load(value) if equals else ".no-" not in name
        for name, equals, value in pairs
    }


@pytest.mark.parametrize(("given", "preset"), [({}, ""), ({"wandb_logger": True}, "short"), ({}, "rehearsal")])
def test_every_option_is_one_of_torchtitan(given: dict[str, Any], preset: str) -> None:
    known = {f"{section}.{name}" for section, names in source("torchtitan")["options"].items() for name in names}
    assert set(arguments(given, preset)) <= known


def test_the_defaults_are_the_published_configuration() -> None:
    ours, published = arguments(), source("torchtitan")["published"]
    assert {name: ours[name] for name in set(ours) & set(published)} == {
        name: _OURS.get(name, value) for name, value in published.items() if name in ours
    }
    needed = {name for name in published if name.startswith(("training.", "model.", "activation_checkpoint."))}
    assert needed - set(ours) == {"training.max_norm"}, "its default is the published value"


def test_torchrun_starts_it_as_upstream_does() -> None:
    said = source("torchtitan")
    (container,) = pod()["containers"]
    before = container["args"][: container["args"].index(said["entry"])]
    assert container["command"] == ["torchrun"]
    assert {word.partition("=")[0] for word in before} == {*said["launched"], "--rdzv-conf"}
    environment = {each["name"]: each.get("value") for each in container["env"]}
    assert environment.items() >= said["launched_environment"].items() | said["efa"]["environment"].items()


def test_the_runtime_is_one_that_trainer_fills_in() -> None:
    found, said = objects({"nodes": 4, "queue": "team"}), source("torchtitan")["trainer"]
    runtime, job = found["TrainingRuntime"], found["TrainJob"]
    (replicated,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    (container,) = pod()["containers"]
    assert runtime["metadata"]["labels"].items() >= said["framework"].items()
    assert replicated["template"]["metadata"]["labels"].items() >= said["ancestor"].items()
    assert container["name"] == said["container"]
    assert not {each["name"] for each in container["env"]} & set(said["reserved_environment"])
    assert job["spec"]["runtimeRef"] == {
        "apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": runtime["metadata"]["name"],
    }  # fmt: skip
    assert job["spec"]["trainer"]["numNodes"] == 4
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"


@pytest.mark.parametrize(
    ("instance_type", "gpus", "efa", "rdma", "mode"),
    [("p5.48xlarge", 8, 32, "1", "selective"), ("p5en.48xlarge", 8, 16, "1", "selective"),
     ("p6-b200.48xlarge", 8, 8, "1", "selective"), ("g6e.12xlarge", 4, 1, "0", "full")],
)  # fmt: skip
def test_one_parameter_chooses_the_machine_and_what_fits_it(
    instance_type: str, gpus: int, efa: int, rdma: str, mode: str
) -> None:
    given = {"instance_type": instance_type}
    spec = pod(given)
    (container,) = spec["containers"]
    limits, environment = container["resources"]["limits"], {one["name"]: one.get("value") for one in container["env"]}
    assert (limits["nvidia.com/gpu"], limits["vpc.amazonaws.com/efa"]) == (gpus, efa)
    assert environment["FI_EFA_USE_DEVICE_RDMA"] == rdma
    assert arguments(given)["activation_checkpoint.mode"] == mode
    assert spec["nodeSelector"]["node.kubernetes.io/instance-type"] == instance_type


def test_the_image_has_the_version_that_the_options_are_of() -> None:
    assert dockerfile_of("torchtitan-llama3-8b").values("ARG")["TORCHTITAN"] == source("torchtitan")[
        "tag"
    ].removeprefix("v")


def test_the_small_training_of_real_nodes_prints_as_the_recorded_one() -> None:
    root = Path(realnode.__file__).parent / "image" / "root" / "usr" / "local" / "lib" / "python3.11"
    lines = runpy.run_path(str(root / "dist-packages" / "torchtitan" / "lines.py"))
    recorded = (shipped("torchtitan-llama3-8b").folder / "rehearsal" / "train.log").read_text(encoding="utf-8")
    head = lines["RECORD"] % {"asctime": "2026-11-29 15:10:02,495", "name": "root", "levelname": "INFO", "message": ""}
    step = lines["step_line"](2, 8.11896, 40.4355, gib=92.77, percent=66.36, tps=7639.2, tflops=442.42, mfu=44.73)
    assert f"[rank0]:{head}{step}\n" in recorded
    assert f"{lines['size_line'](8_030_261_248)}\n" in recorded


def test_the_second_node_prints_what_the_first_does_but_for_what_is_of_rank_0_alone() -> None:
    folder = shipped("torchtitan-llama3-8b").folder / "rehearsal"
    first, second = ((folder / name).read_text(encoding="utf-8").splitlines() for name in ("train.log", "train-1.log"))
    alone = [line for line in first if line not in second]
    assert [line.partition(" - INFO - ")[2].partition(".")[0] for line in alone] == [
        "TensorBoard logging enabled", "Sleeping 2 seconds for other ranks to complete", "Training completed",
    ]  # fmt: skip
    assert second == [line for line in first if line not in alone]
