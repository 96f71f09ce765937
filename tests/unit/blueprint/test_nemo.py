"""The traps of the NeMo system, held down one by one in what is rendered, and the scripts that go with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from actions.base.errors import ParameterError
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import bind
from actions.blueprint.parts import Scalar
from actions.blueprint.render import stage_manifests, tfvars_of
from tests.support.missing import needs
from tests.unit.blueprint.shipped import object_of, shipped

_IMAGE = {"image": {"image": "registry.example/nemo-aws@sha256:" + "0" * 64}}


def blueprint() -> Blueprint:
    return shipped("nemo-gpt3-5b")


def rendered(stage: str, kind: str, **given: Scalar) -> dict[str, Any]:
    return object_of("nemo-gpt3-5b", stage, kind, given=given, outputs=_IMAGE)


def worker(**given: Scalar) -> dict[str, Any]:
    job = rendered("train", "PyTorchJob", **given)
    (container,) = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    return dict(container)


def argument(container: dict[str, Any], name: str) -> str:
    (value,) = [text.partition("=")[2] for text in container["args"] if text.startswith(f"{name}=")]
    return str(value)


def variables(container: dict[str, Any]) -> dict[str, str]:
    return {item["name"]: item["value"] for item in container["env"] if "value" in item}


@pytest.mark.parametrize(("instance_type", "interfaces"), [("p4de.24xlarge", 4), ("p5.48xlarge", 32)])
def test_one_parameter_chooses_the_machine_with_all_its_efa_interfaces(instance_type: str, interfaces: int) -> None:
    job = rendered("train", "PyTorchJob", instance_type=instance_type)
    spec = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    assert spec["nodeSelector"] == {"node.kubernetes.io/instance-type": instance_type}
    limits = worker(instance_type=instance_type)["resources"]["limits"]
    assert limits["vpc.amazonaws.com/efa"] == interfaces
    assert limits["nvidia.com/gpu"] == 8
    assert limits["hugepages-2Mi"] == "5120Mi"
    values = tfvars_of(
        blueprint(),
        "nodes",
        bind(blueprint(), {"instance_type": instance_type, "capacity_reservation_id": "cr-0123456789abcdef0"}),
        run_id="r",
        outputs={
            "capacity": {"placement_group": "reserved"},
            "network": {"storage_subnet_id": "subnet-1"},
            "provision": {"node_security_group_id": "sg-1"},
        },
    )
    assert values["instance_type"] == instance_type
    assert values["capacity_reservation_id"] == "cr-0123456789abcdef0"
    assert values["efa"] is True
    assert values["subnet_ids"] == "subnet-1"


@pytest.mark.parametrize("nodes", [1, 2, 8])
def test_torchrun_the_operator_and_the_trainer_agree_on_the_world(nodes: int) -> None:
    job, container = rendered("train", "PyTorchJob", nodes=nodes), worker(nodes=nodes)
    assert job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == nodes
    assert argument(container, "--nnodes") == argument(container, "trainer.num_nodes") == str(nodes)
    assert job["spec"]["nprocPerNode"] == argument(container, "--nproc_per_node") == "8"
    assert argument(container, "trainer.devices") == variables(container)["SLURM_NTASKS_PER_NODE"] == "8"


def test_training_reads_the_files_that_the_preparation_writes() -> None:
    trained = variables(worker(first_file=3, files=4))
    job = rendered("data", "MPIJob", first_file=3, files=4)
    (launcher,) = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    prepared = variables(launcher)
    assert (
        (trained["FIRST_FILE"], trained["LAST_FILE"]) == (prepared["FIRST_FILE"], prepared["LAST_FILE"]) == ("3", "6")
    )


def test_sequence_lengths_are_one_parameter() -> None:
    container = worker(seq_length=1024)
    names = ("model.encoder_seq_length", "model.max_position_embeddings", "model.data.seq_length")
    assert {argument(container, name) for name in names} == {"1024"}


def test_the_launcher_waits_for_its_workers_and_starts_as_many_processes_as_they_have_slots() -> None:
    job = rendered("data", "MPIJob", prep_workers=3, prep_processes=5)
    assert job["spec"]["launcherCreationPolicy"] == "WaitForWorkersReady"
    assert job["spec"]["slotsPerWorker"] == 5
    (launcher,) = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    assert variables(launcher)["PROCESSES"] == "15"
    assert variables(launcher)["PROCESSES_PER_WORKER"] == "5"


def test_the_preparation_takes_no_accelerator() -> None:
    for group in rendered("data", "MPIJob")["spec"]["mpiReplicaSpecs"].values():
        (container,) = group["template"]["spec"]["containers"]
        assert not {"nvidia.com/gpu", "vpc.amazonaws.com/efa"} & set(container["resources"]["limits"])


def test_the_configuration_of_the_preparation_has_gpt3_in_its_name() -> None:
    config = rendered("data", "ConfigMap")["data"]["config.yaml"]
    assert "data_config: download_gpt3_pile" in config


def test_the_image_is_named_by_the_digest_that_the_registry_has_unless_one_is_given() -> None:
    assert worker()["image"] == _IMAGE["image"]["image"]
    given = "registry.example/nemo-aws:24.01.framework"
    assert worker(image_source="given", image=given)["image"] == given


def test_volume_and_claim_find_each_other_and_no_other() -> None:
    objects = {
        item["kind"]: item
        for item in stage_manifests(
            blueprint(),
            "volumes",
            bind(blueprint(), {}),
            run_id="r",
            outputs={"filesystem": {"fsx_id": "fs-1", "fsx_dns_name": "d", "fsx_mount_name": "m"}},
        )
    }
    claim, volume = objects["PersistentVolumeClaim"]["spec"], objects["PersistentVolume"]["spec"]
    assert claim["volumeName"] == "fsx-pv"
    assert claim["storageClassName"] == volume["storageClassName"] == ""
    assert volume["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["csi"]["volumeHandle"] == "fs-1"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"tensor_parallel": 8, "pipeline_parallel": 3}, "does not divide the 16 processes"),
        ({"global_batch_size": 100}, "not a multiple of 32"),
        ({"val_check_interval": 2000}, "more than the 1000 steps"),
        ({"first_file": 28, "files": 3}, "numbered 0 to 29"),
        ({"files": 30}, "more than the file system's 1200 GiB"),
        ({"files": 10, "val_check_interval": 50}, "11 checkpoints take about 715 GiB and the files 700: more than"),
        ({"prep_memory_gib": 30}, "m5.2xlarge leaves about 28 GiB to pods"),
        ({"shm_gib": 1000}, "against which it counts"),
        ({"worker_memory_gib": 1500}, "leaves about 1052 GiB"),
        ({"min_learning_rate": 0.1}, "is not less than learning_rate"),
        ({"capacity_reservation_id": "cr-id"}, "capacity_reservation_id"),
        ({"image_source": "given"}, "nvcr.io/nvidia/nemo:24.01.framework is NVIDIA's own"),
        ({"image_source": "given", "image": "nvcr.io/nvidia/nemo@sha256:" + "0" * 64}, "neither EFA nor the mpirun"),
        ({"image_source": "given", "image": "nvcr.io/nvidia/nemo"}, "is NVIDIA's own"),
    ],
)
def test_values_that_do_not_fit_together_are_refused_in_one_sentence(given: dict[str, Scalar], complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        bind(blueprint(), given)


def run_train_script(folder: Path, *words: str, **given: Scalar) -> subprocess.CompletedProcess[str]:
    """Run `train.sh` as the container does, with a torchrun that only shows its arguments."""
    script = folder / "train.sh"
    script.write_text(rendered("train", "ConfigMap")["data"]["train.sh"])
    torchrun = folder / "torchrun"
    torchrun.write_text('#!/bin/sh\nprintf "%s\\n" "connections=$CUDA_DEVICE_MAX_CONNECTIONS" "$@"\n')
    torchrun.chmod(0o755)
    known = variables(worker(**given)) | {"DATA_DIR": str(folder), "PATH": f"{folder}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", str(script), *words], env=known, capture_output=True, text=True, check=False, timeout=120
    )


def put_tokens(folder: Path, *numbers: int) -> None:
    for number in numbers:
        for ending in ("bin", "idx"):
            (folder / f"my-gpt3_{number:02d}_text_document.{ending}").write_text("0")


def test_the_start_script_gives_every_file_the_same_weight(tmp_path: Path) -> None:
    put_tokens(tmp_path, 0, 1)
    done = run_train_script(tmp_path, "--nnodes=2", files=2)
    assert done.returncode == 0
    stem = f"{tmp_path}/my-gpt3_0"
    assert done.stdout.splitlines()[1:] == [
        "--nnodes=2",
        f"model.data.data_prefix=[1.0,{stem}0_text_document,1.0,{stem}1_text_document]",
    ]


def test_the_start_script_names_a_file_that_is_missing(tmp_path: Path) -> None:
    put_tokens(tmp_path, 0)
    done = run_train_script(tmp_path, files=2)
    assert done.returncode == 1
    assert f"FileNotFoundError: {tmp_path}/my-gpt3_01_text_document.bin is missing or empty" in done.stderr


def test_the_start_script_asks_for_made_up_tokens(tmp_path: Path) -> None:
    done = run_train_script(tmp_path, data="sample")
    assert done.stdout.splitlines()[1:] == ["model.data.data_impl=mock", "model.data.data_prefix=[]"]


@pytest.mark.parametrize(("size", "connections"), [(1, ""), (4, "1")])
def test_one_connection_to_the_device_with_tensor_parallelism_only(tmp_path: Path, size: int, connections: str) -> None:
    done = run_train_script(tmp_path, f"model.tensor_model_parallel_size={size}", data="sample")
    assert done.stdout.splitlines()[0] == f"connections={connections}"


def test_the_look_after_a_step_finds_what_is_missing(tmp_path: Path) -> None:
    script = tmp_path / "verify.py"
    script.write_text(rendered("data", "ConfigMap")["data"]["verify.py"])
    put_tokens(tmp_path, 0)

    def look(last: int, step: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, str(script), str(tmp_path), "0", str(last), step]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)

    whole = look(0, "preprocess")
    assert (whole.returncode, whole.stdout) == (0, "2 files are there after preprocess\n")
    partial = look(1, "preprocess")
    assert partial.returncode == 1
    assert "my-gpt3_01_text_document.idx" in partial.stderr
    assert "2 of 4 files are missing after preprocess" in partial.stderr
    assert "1 of 1 files are missing after download" in look(0, "download").stderr


@pytest.mark.parametrize("ending", ["", "\n"])
def test_a_download_that_was_cut_off_is_removed_to_be_fetched_again(tmp_path: Path, ending: str) -> None:
    script = tmp_path / "verify.py"
    script.write_text(rendered("data", "ConfigMap")["data"]["verify.py"])
    whole, broken = tmp_path / "00.jsonl", tmp_path / "01.jsonl"
    document = json.dumps({"text": "x" * (3 << 20)})
    whole.write_text(f"{document}\n{document}{ending}")
    broken.write_text(f"{document}\n{document[:-9]}")
    for path in (whole, broken):
        Path(f"{path}.zst").write_text("0")
    argv = [sys.executable, str(script), str(tmp_path), "0", "1", "extract"]
    first = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert first.returncode == 1
    assert f"cut off, removed to be fetched again: {broken}\n" in first.stderr
    assert "1 of 2 downloads were cut off" in first.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00.jsonl", "00.jsonl.zst", "verify.py"]
    broken.write_text(document)
    second = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert second.stdout == "2 files are there after extract\n"


@pytest.mark.parametrize("page", ["", "Too Many Requests"])
def test_what_is_no_archive_is_removed_to_be_fetched_again(tmp_path: Path, page: str) -> None:
    """The program keeps the page of an error, or an empty file, and takes it for the download from then on."""
    script = tmp_path / "verify.py"
    script.write_text(rendered("data", "ConfigMap")["data"]["verify.py"])
    (tmp_path / "00.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd...")
    (tmp_path / "01.jsonl.zst").write_text(page)
    argv = [sys.executable, str(script), str(tmp_path), "0", "1", "download"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert f"{tmp_path}/01.jsonl.zst\n" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00.jsonl.zst", "verify.py"]


def test_a_limit_of_restarts_is_of_the_group_and_not_of_one_node() -> None:
    """The operator adds up the restarts of all workers, and a failure ends the worker of every node."""
    for preset in ("", "full"):
        binding = bind(blueprint(), {}, preset=preset)
        (job,) = [
            item
            for item in stage_manifests(blueprint(), "train", binding, run_id="r", outputs=_IMAGE)
            if item["kind"] == "PyTorchJob"
        ]
        assert job["spec"]["runPolicy"]["backoffLimit"] == 4 * int(binding.values["nodes"])


@pytest.mark.parametrize(
    ("given", "memory"),
    [
        ({}, "24Gi"),
        ({"core_instance_type": "c5.2xlarge"}, "10Gi"),
        ({"prep_workers": 4}, "12Gi"),
        ({"prep_memory_gib": 16}, "16Gi"),
    ],
)
def test_the_preparation_has_the_memory_that_its_nodes_leave_it(given: dict[str, Scalar], memory: str) -> None:
    pods = rendered("data", "MPIJob", **given)["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    assert {pods[0]["resources"][name]["memory"] for name in ("requests", "limits")} == {memory}


def test_the_launcher_of_the_preparation_is_made_when_sshd_answers() -> None:
    group = rendered("data", "MPIJob")["spec"]["mpiReplicaSpecs"]["Worker"]
    assert group["template"]["spec"]["containers"][0]["readinessProbe"]["tcpSocket"] == {"port": 22}


def test_every_step_of_the_preparation_is_looked_at_before_the_next() -> None:
    (launcher,) = rendered("data", "MPIJob")["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    steps = [step.split() for step in launcher["args"][0].split("&&")]
    assert [step[-1] if "/config/verify.py" in step else "" for step in steps] == [
        "", "download", "", "extract", "", "preprocess",
    ]  # fmt: skip


@needs("curl")
def test_the_vocabulary_is_fetched_whole_and_once(tmp_path: Path) -> None:
    (container,) = rendered("vocabulary", "Job")["spec"]["template"]["spec"]["containers"]
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "vocab.json").write_text("{}")
    known = {"VOCABULARY_URL": source.as_uri(), "VOCABULARY_DIR": str(target), "PATH": os.environ["PATH"]}
    argv = [*container["command"], *container["args"]]
    first = subprocess.run(argv, env=known, capture_output=True, text=True, check=False, timeout=60)
    assert first.returncode != 0
    assert sorted(path.name for path in target.iterdir()) == ["vocab.json"]
    (source / "merges.txt").write_text("a b")
    second = subprocess.run(argv, env=known, capture_output=True, text=True, check=False, timeout=60)
    assert second.stdout == "vocab.json is there\nmerges.txt fetched, 3 bytes\n"
