"""BioNeMo's jobs against the configuration and the data preparation of its release 1.2, and against the guide's job."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from actions.blueprint.parameters import bind
from actions.blueprint.parts import Scalar
from actions.fleet.instance_types import InstanceTable
from tests.unit.blueprint.shipped import object_of, shipped
from tests.upstream.sources import overrides_of, source

_OWN: dict[str, Any] = {
    "exp_manager.exp_dir": "/fsx/esm1nv-train/results",
    "exp_manager.wandb_logger_kwargs.name": "esm1nv-small",
    "trainer.num_nodes": 8,
    "trainer.devices": 1,
    "model.optim.sched.warmup_steps": 500,
    "model.optim.sched.constant_steps": 50000,
}
"""Our values where they differ: the README gives the reasons."""


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


def test_workers_wait_for_nodes_that_come_later_than_the_rendezvous_would() -> None:
    policy = object_of("bionemo-esm1nv", "train", "PyTorchJob", given={}, outputs={})["spec"]["elasticPolicy"]
    said, ours = source("torch_rendezvous"), {item["key"]: int(item["value"]) for item in policy["rdzvConf"]}
    assert ours["read_timeout"] > 10 * said["read_timeout"]
    assert ours["join_timeout"] >= ours["read_timeout"] > said["join"]["join_timeout"]


@pytest.mark.parametrize(("failure", "stays"), [(EOFError, False), (ValueError, True)])
def test_a_download_that_was_cut_off_is_not_taken_up_again(
    failure: type[Exception], stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays under its last name, and every later attempt would end in the middle of its extraction."""
    archive = tmp_path / "raw" / "uniref50.fasta.gz"
    archive.parent.mkdir()
    archive.touch()
    container = container_of("data", "Job")

    class UniRef50Preprocess:
        def __init__(self, root_directory: str) -> None:
            assert root_directory == str(tmp_path)

        def prepare_dataset(self, **_given: object) -> None:
            raise failure

    module = ModuleType("bionemo.data")
    module.UniRef50Preprocess = UniRef50Preprocess  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "bionemo", ModuleType("bionemo"))
    monkeypatch.setitem(sys.modules, "bionemo.data", module)
    for item in container["env"]:
        monkeypatch.setenv(item["name"], item["value"])
    monkeypatch.setenv("DATA_PATH", str(tmp_path))
    with pytest.raises(failure):
        exec(compile(container["args"][0], "prepare", "exec"), {})
    assert archive.exists() is stays
    assert source("bionemo_esm1nv")["prepare_dataset"]["archive"] == archive.relative_to(tmp_path).as_posix()


def test_the_pool_may_start_as_many_nodes_as_the_workers_need() -> None:
    """64 workers on nodes with one GPU: 2048 vCPUs."""
    given: dict[str, Scalar] = {"workers": 64, "instance_type": "g5.8xlarge"}
    pool = object_of("bionemo-esm1nv", "pool", "NodePool", given=given, outputs={})["spec"]
    assert pool["limits"] == {"cpu": "2048", "memory": "8192Gi"}


@pytest.mark.parametrize("instance_type", shipped("bionemo-esm1nv").parameters["instance_type"].choices)
def test_a_worker_is_never_larger_than_what_karpenter_counts_on(instance_type: str) -> None:
    """Karpenter takes off its `vmMemoryOverheadPercent` and what kubelet keeps: beyond that it starts no node."""
    node = InstanceTable.load().find(instance_type)
    assert node is not None
    said = source("karpenter")["memory"]
    kept = said["kubelet_mib"] + said["kubelet_mib_per_pod"] * (node.max_pods or 0) + said["eviction_mib"]
    counted = node.memory_bytes * (1 - said["overhead"]) - kept * 1024**2
    binding = bind(shipped("bionemo-esm1nv"), {"instance_type": instance_type})
    assert int(binding.derived["memory_for_pods"]) * 1024**3 <= counted
