"""The traps of the BioNeMo system, held down one by one in what is rendered."""

from __future__ import annotations

from typing import Any

import pytest

from actions.blueprint.parts import Scalar
from tests.unit.blueprint.shipped import object_of


def rendered(stage: str, **given: Scalar) -> dict[str, Any]:
    return object_of("bionemo-esm1nv", stage, "Job", "PyTorchJob", given=given, outputs={})


def worker(job: dict[str, Any]) -> dict[str, Any]:
    (container,) = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    assert container["name"] == "pytorch"
    return dict(container)


def argument(container: dict[str, Any], name: str) -> int:
    (value,) = [text.partition("=")[2] for text in container["command"] if text.startswith(f"{name}=")]
    return int(value)


@pytest.mark.parametrize(("workers", "gpus"), [(8, 1), (2, 1), (2, 4), (7, 1)])
def test_the_world_that_is_started_is_the_one_the_trainer_expects(workers: int, gpus: int) -> None:
    job = rendered("train", workers=workers, gpus_per_worker=gpus)
    container = worker(job)
    assert argument(container, "trainer.num_nodes") * argument(container, "trainer.devices") == workers * gpus
    assert argument(container, "--nproc_per_node") == gpus
    assert container["resources"]["limits"]["nvidia.com/gpu"] in (gpus, str(gpus))


def test_both_operators_start_the_same_number_of_processes() -> None:
    """1.7.0 ignores spec.nprocPerNode, 1.8.1 honours it: the argument says the same."""
    job = rendered("train", gpus_per_worker=2, workers=4)
    assert job["spec"]["nprocPerNode"] == "2"
    assert argument(worker(job), "--nproc_per_node") == 2


def test_the_group_never_starts_smaller_and_is_never_scaled() -> None:
    policy = rendered("train", workers=4)["spec"]["elasticPolicy"]
    assert policy["minReplicas"] == policy["maxReplicas"] == 4
    assert "metrics" not in policy


def test_workers_have_shared_memory_for_their_data_loaders() -> None:
    job = rendered("train")
    template = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    mounts = {mount["mountPath"]: mount["name"] for mount in worker(job)["volumeMounts"]}
    (volume,) = [volume for volume in template["volumes"] if volume["name"] == mounts["/dev/shm"]]
    assert volume["emptyDir"]["medium"] == "Memory"


def test_training_reads_as_many_files_as_the_data_job_writes() -> None:
    job = rendered("train", num_csv_files=7)
    assert "model.data.dataset.train='x_OP_000..006_CL_'" in worker(job)["command"]
    (container,) = rendered("data", num_csv_files=7)["spec"]["template"]["spec"]["containers"]
    assert {"name": "NUM_CSV_FILES", "value": "7"} in container["env"]


def test_the_node_type_is_chosen_by_the_label_that_is_not_deprecated() -> None:
    selector = rendered("train")["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["nodeSelector"]
    assert selector == {"node.kubernetes.io/instance-type": "g5.12xlarge"}
