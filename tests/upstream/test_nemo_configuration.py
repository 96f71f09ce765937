"""The training's configuration against the published one, and against what NeMo 1.23.0 reads of it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from actions.blueprint.parameters import bind
from actions.blueprint.render import stage_manifests
from actions.blueprint.targets import Manifest
from tests.unit.blueprint.shipped import shipped
from tests.upstream.sources import flattened, keys_of, overrides_of, source

_OUTPUTS = {"image": {"image": "registry.example/nemo-aws@sha256:" + "0" * 64}}
_SLURM_ONLY = {"run.time_limit", "run.dependency"}
_DATA = {"model.data.data_prefix", "model.data.data_impl"}
"""Set by the start script: one weight for each file, or made-up tokens."""
_FOLDERS = {
    "${base_results_dir}": "/fsx_shared/results",
    "${data_dir}": "/fsx_shared/data",
    "/${.name}": "/gpt3_5b",
    "training.": "",
    "${run.name}": "gpt3_5b",
    "${run.results_dir}": "/fsx_shared/results/gpt3_5b",
}
PRESETS = ("", "short", "full", "rehearsal")


def objects(preset: str) -> dict[str, Manifest]:
    blueprint = shipped("nemo-gpt3-5b")
    binding = bind(blueprint, {}, preset=preset)
    found = stage_manifests(blueprint, "train", binding, run_id="r", outputs=_OUTPUTS)
    return {str(item["kind"]): item for item in found}


def configuration(preset: str = "") -> dict[str, Any]:
    return dict(yaml.safe_load(objects(preset)["ConfigMap"]["data"]["config.yaml"]))


def overrides(preset: str = "") -> dict[str, Any]:
    worker = objects(preset)["PyTorchJob"]["spec"]["pytorchReplicaSpecs"]["Worker"]
    (container,) = worker["template"]["spec"]["containers"]
    return overrides_of(container["args"])


def published() -> dict[str, Any]:
    """The published leaves, with the launcher's folders as ours."""
    leaves = {key: value for key, value in source("nemo_gpt3_5b")["values"].items() if key not in _SLURM_ONLY}
    for name, value in leaves.items():
        for old, new in _FOLDERS.items() if isinstance(value, str) else ():
            leaves[name] = leaves[name].replace(old, new)
    return leaves


def test_every_published_key_is_there_and_no_other() -> None:
    assert set(flattened(configuration())) == set(published()) | {"model.data.data_prefix"}


def test_the_preset_full_is_the_published_configuration() -> None:
    effective = flattened(configuration("full")) | overrides("full")
    del effective["model.data.data_prefix"]
    assert effective == published()
    assert bind(shipped("nemo-gpt3-5b"), {}, preset="full").values["files"] == source("nemo_gpt3_5b")["data_files"]


def test_every_key_that_nemo_reads_without_a_default_is_there() -> None:
    there = set(keys_of(configuration()))
    missing = {file: set(keys) - there for file, keys in source("nemo_reads")["required"].items()}
    assert missing == {file: set() for file in missing}


def test_every_key_of_the_model_is_one_that_nemo_or_the_published_configuration_knows() -> None:
    ours = {key for key in flattened(configuration()) if key.startswith("model.")}
    assert ours <= set(source("nemo_reads")["optional"]) | set(published()) | {"model.data.data_prefix"}


def test_the_trainer_takes_every_key_that_it_is_handed() -> None:
    assert set(configuration()["trainer"]) <= set(source("nemo_reads")["trainer"])


def test_the_experiment_manager_takes_every_key() -> None:
    """It merges them into dataclasses, which refuse others."""
    ours, fields = configuration()["exp_manager"], source("nemo_reads")["exp_manager"]
    assert set(ours) <= set(fields["ExpManagerConfig"])
    for name in ("checkpoint_callback_params", "step_timing_kwargs"):
        assert set(ours[name]) <= set(fields[name])


@pytest.mark.parametrize("preset", PRESETS)
def test_every_override_is_of_a_key_that_is_there(preset: str) -> None:
    """Hydra refuses an override of a key that is not in the struct."""
    assert set(overrides(preset)) | _DATA <= set(flattened(configuration(preset)))
    script = objects(preset)["ConfigMap"]["data"]["train.sh"]
    assert {word for word in _DATA if f"{word}=" in script} == _DATA


def test_workers_wait_for_an_image_longer_than_the_rendezvous_would() -> None:
    worker = objects("")["PyTorchJob"]["spec"]["pytorchReplicaSpecs"]["Worker"]
    (container,) = worker["template"]["spec"]["containers"]
    (conf,) = [word.partition("=")[2] for word in container["args"] if word.startswith("--rdzv-conf=")]
    ours, said = (
        {key: int(value) for key, _, value in (one.partition("=") for one in conf.split(","))},
        source("torch_rendezvous"),
    )
    assert ours["read_timeout"] > 10 * said["read_timeout"]
    assert ours["join_timeout"] >= ours["read_timeout"] > said["join"]["join_timeout"]


def test_no_precision_can_be_chosen_in_which_nemo_does_not_train() -> None:
    """With `megatron_amp_O2`, as the configuration has it; without, the published model is not known to fit."""
    assert configuration()["model"]["megatron_amp_O2"] is True
    assert set(shipped("nemo-gpt3-5b").parameters["precision"].choices) <= set(
        source("nemo_reads")["precisions_with_O2"]
    )
