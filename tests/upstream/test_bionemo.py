"""BioNeMo's jobs against the configuration and the data preparation of its release 1.2, and against the guide's job."""

from __future__ import annotations

import ast
from typing import Any

from tests.unit.blueprint.shipped import object_of
from tests.upstream.sources import overrides_of, source

_OWN: dict[str, Any] = {
    "exp_manager.exp_dir": "/fsx/esm1nv-train/results",
    "exp_manager.wandb_logger_kwargs.name": "esm1nv-small",
    "trainer.num_nodes": 8,
    "trainer.devices": 1,
}
"""Where our values are others: the README says why."""


def container_of(stage: str, kind: str, **given: Any) -> dict[str, Any]:
    spec = object_of("bionemo-esm1nv", stage, kind, given=given, outputs={})["spec"]
    template = spec["template"] if kind == "Job" else spec["pytorchReplicaSpecs"]["Worker"]["template"]
    (container,) = template["spec"]["containers"]
    return dict(container)


def training() -> list[str]:
    return [str(word) for word in container_of("train", "PyTorchJob")["command"]]


def test_every_override_is_of_a_key_that_the_configuration_has_or_is_forced() -> None:
    keys = set(source("bionemo_esm1nv")["keys"])
    assert {key for key in overrides_of(training()) if not key.startswith("++")} <= keys


def test_the_overrides_are_the_guides_but_for_those_that_the_readme_explains() -> None:
    said = overrides_of(source("bionemo_esm1nv")["job"]["arguments"])
    assert overrides_of(training()) == said | _OWN
    assert source("bionemo_esm1nv")["job"]["program"] in training()
    world = said["trainer.num_nodes"] * said["trainer.devices"]
    assert world == _OWN["trainer.num_nodes"] * _OWN["trainer.devices"]


def test_the_data_preparation_takes_every_argument_that_it_is_given() -> None:
    defaults = source("bionemo_esm1nv")["prepare_dataset"]["defaults"]
    container = container_of("data", "Job")
    calls = [node for node in ast.walk(ast.parse(container["args"][0])) if isinstance(node, ast.Call)]
    (call,) = [node for node in calls if isinstance(node.func, ast.Attribute) and node.func.attr == "prepare_dataset"]
    names = [str(keyword.arg) for keyword in call.keywords]
    assert set(names) <= set(defaults)
    values = {item["name"].lower(): item["value"] for item in container["env"]}
    assert {name: int(values[name]) for name in names if name in values} == {
        name: defaults[name] for name in ("num_csv_files", "val_size", "test_size")
    }


def test_the_sample_has_the_names_of_the_real_files() -> None:
    manifest = object_of("bionemo-esm1nv", "sample", "ConfigMap", given={}, outputs={})
    assert 'f"{folder}/x{index:03d}.csv"' in manifest["data"]["sample.py"]
    assert source("bionemo_esm1nv")["prepare_dataset"]["writes"] == "processed/{split}/x{number:03d}.csv"
