"""The traps of the Llama-2 system on Trainium with MPI, held down one by one in what is rendered, and its scripts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from actions.base.errors import ParameterError
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import bind, skipped_stages
from actions.blueprint.parts import Scalar
from actions.blueprint.render import tfvars_of
from actions.blueprint.stages import CheckStage
from actions.sandbox.programs.files import FileView, MemoryVolume
from actions.sandbox.programs.neuronx_nemo.node import SCRIPTS, ScriptParameters, read_scripts
from tests.unit.blueprint.shipped import object_of, shipped

_IMAGE = "registry.example/neuronx_nemo@sha256:" + "0" * 64
_JOBS = {"precompile": "test-mpi-compile", "train": "test-mpi-train"}


def blueprint() -> Blueprint:
    return shipped("llama2-trn1-mpi")


def rendered(stage: str, kind: str, **given: Scalar) -> dict[str, Any]:
    return object_of("llama2-trn1-mpi", stage, kind, given=given, outputs={"image": {"image": _IMAGE}})


def container_of(stage: str, role: str, **given: Scalar) -> dict[str, Any]:
    job = rendered(stage, "MPIJob", **given)
    (container,) = job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]["containers"]
    return dict(container)


def variables(container: dict[str, Any]) -> dict[str, str]:
    return {item["name"]: item.get("value", "") for item in container["env"]}


def pod_of(manifest: dict[str, Any]) -> dict[str, Any]:
    spec = manifest["spec"]
    return dict(spec["template"]["spec"] if "template" in spec else spec)


@pytest.mark.parametrize("nodes", [1, 2, 4, 8])
def test_compilation_training_and_node_group_have_one_number(nodes: int) -> None:
    for stage in _JOBS:
        job = rendered(stage, "MPIJob", nodes=nodes, global_batch_size=256)
        arguments = container_of(stage, "Launcher", nodes=nodes)["args"]
        assert job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == nodes
        assert arguments[:2] == ["-np", str(nodes)]
    values = tfvars_of(
        blueprint(),
        "nodes",
        bind(blueprint(), {"nodes": nodes}),
        run_id="r",
        outputs={
            "capacity": {"placement_group": "reserved"},
            "network": {"storage_subnet_id": "subnet-1"},
            "provision": {"node_security_group_id": "sg-1"},
        },
    )
    assert (values["node_count"], values["efa"], values["subnet_ids"]) == (nodes, True, "subnet-1")
    assert values["ami_type"] == "AL2023_x86_64_NEURON"


def test_both_jobs_run_the_same_but_for_compiling() -> None:
    compiling, training = container_of("precompile", "Launcher"), container_of("train", "Launcher")
    exported = [
        [arguments[i + 1] for i, word in enumerate(arguments) if word == "-x"]
        for arguments in (compiling["args"], training["args"])
    ]
    assert set(exported[0]) ^ set(exported[1]) == {"COMPILE=1", "TRAIN_ITERS", "EXPERIMENT"}
    assert compiling["args"][-1] == training["args"][-1] == "./llama_7b.sh"
    assert container_of("precompile", "Worker") == container_of("train", "Worker")


def test_the_log_can_be_read_while_workers_are_there_and_when_they_are_gone() -> None:
    watch = blueprint().stage("train").watch
    assert watch is not None
    assert watch.logs is not None
    name, _, value = watch.logs.pod.partition("=")
    worker = rendered("train", "MPIJob")["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"]
    assert rendered("shell", "Pod")["metadata"]["labels"][name] == worker["labels"][name] == value
    assert "shell" in blueprint().stage("train").needs


def test_they_never_run_at_once() -> None:
    assert "precompile" in blueprint().stage("train").needs
    assert rendered("precompile", "MPIJob")["spec"]["runPolicy"]["cleanPodPolicy"] == "Running"


@pytest.mark.parametrize("stage", _JOBS)
def test_the_launcher_is_made_when_its_workers_let_it_in(stage: str) -> None:
    spec = rendered(stage, "MPIJob")["spec"]
    assert spec["launcherCreationPolicy"] == "WaitForWorkersReady"
    assert spec["slotsPerWorker"] == 1
    worker = container_of(stage, "Worker")
    assert worker["readinessProbe"]["tcpSocket"]["port"] == 22
    launcher = spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    assert "initContainers" not in launcher
    assert "aws.amazon.com/neuron" not in launcher["containers"][0]["resources"]["limits"]


@pytest.mark.parametrize(("instance_type", "interfaces"), [("trn1.32xlarge", 8), ("trn1n.32xlarge", 16)])
def test_a_worker_takes_a_whole_node(instance_type: str, interfaces: int) -> None:
    for stage in _JOBS:
        resources = container_of(stage, "Worker", instance_type=instance_type)["resources"]
        for part in ("requests", "limits"):
            assert int(resources[part]["aws.amazon.com/neuron"]) == 16
            assert int(resources[part]["vpc.amazonaws.com/efa"]) == interfaces


def test_the_launchers_pod_uid_names_the_log_that_is_watched() -> None:
    (uid,) = [item for item in container_of("train", "Launcher")["env"] if item["name"] == "POD_UID"]
    assert uid["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.uid"}}
    watch = blueprint().stage("train").watch
    assert watch is not None
    assert watch.logs is not None
    assert watch.logs.file == "/shared/nemo_experiments/{uid}/0/log"
    assert watch.logs.uid_of.endswith("job-name=test-mpi-train,training.kubeflow.org/job-role=launcher")


def test_the_token_is_a_reference_everywhere() -> None:
    for stage, kind in (("tokenizer", "Job"), ("shell", "Pod")):
        (container,) = pod_of(rendered(stage, kind))["containers"]
        (token,) = [item for item in container["env"] if item["name"] == "HF_TOKEN"]
        assert token == {
            "name": "HF_TOKEN",
            "valueFrom": {"secretKeyRef": {"name": "huggingface", "key": "token", "optional": True}},
        }
        assert blueprint().stage(stage).secrets == ("huggingface",)
    with pytest.raises(ParameterError, match="takes a reference"):
        bind(blueprint(), {"hf_token": "hf_abcdef"})


def test_the_image_is_named_by_its_digest_unless_one_is_given() -> None:
    for stage, kind in (("sources", "Job"), ("tokenise", "Job"), ("tensorboard", "Deployment"), ("shell", "Pod")):
        (container,) = pod_of(rendered(stage, kind))["containers"]
        assert container["image"] == _IMAGE
        (given,) = pod_of(rendered(stage, kind, image_source="given", image="my.registry/a:b"))["containers"]
        assert given["image"] == "my.registry/a:b"


def test_tensorboard_is_reached_from_inside_only() -> None:
    assert rendered("tensorboard", "Service")["spec"]["type"] == "ClusterIP"
    assert "tensorboard" not in skipped_stages(blueprint(), bind(blueprint(), {"tensorboard": True}))


@pytest.mark.parametrize(
    ("data", "skipped"),
    [
        ("prepare", {"sample"}),
        ("sample", {"dataset"}),
        ("existing", {"dataset", "sample", "tokenise"}),
    ],
)
def test_data_can_be_brought_along(data: str, skipped: set[str]) -> None:
    assert skipped_stages(blueprint(), bind(blueprint(), {"data": data})) == skipped | {"tensorboard", "exporters"}


def test_training_reads_what_the_tokenisation_writes() -> None:
    (tokenise,) = pod_of(rendered("tokenise", "Job", data_dir="/shared/mine"))["containers"]
    (sources,) = pod_of(rendered("sources", "Job", data_dir="/shared/mine"))["containers"]
    assert "--output-prefix=/shared/mine/redpajama_sample" in tokenise["args"]
    assert variables(sources)["DATASET_PATH"] == "/shared/mine/redpajama_sample_text_document"


def test_trainium_is_paid_for_from_the_last_moment() -> None:
    stages = [stage.id for stage in blueprint().stages]
    paid = [stage.id for stage in blueprint().stages if "trn-nodes" in stage.holds]
    assert paid == ["nodes", "fabric", "precompile", "train"]
    assert stages.index("tokenise") < stages.index("nodes")
    assert blueprint().stage("nodes").holds_accelerators


def test_the_fabric_is_checked_by_what_nodes_offer() -> None:
    stage = blueprint().stage("fabric")
    assert isinstance(stage, CheckStage)
    assert [getattr(check, "resource", "") for check in stage.checks] == [
        "aws.amazon.com/neuron",
        "vpc.amazonaws.com/efa",
    ]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"tensor_parallel": 32, "pipeline_parallel": 8}, "does not divide the 128 processes"),
        ({"global_batch_size": 100}, "not a multiple of 16"),
        ({"tokenise_workers": 32}, "m5.2xlarge has 8 vCPUs"),
        ({"min_learning_rate": 0.1}, "is more than learning_rate"),
        ({"region": "eu-west-1"}, "region"),
        ({"capacity_reservation_id": "cr-id"}, "capacity_reservation_id"),
    ],
)
def test_values_that_do_not_fit_together_are_refused_in_one_sentence(given: dict[str, Scalar], complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        bind(blueprint(), given)


_UPSTREAM = {
    "test_llama.sh": (
        ": ${TOKENIZER_PATH=$HOME/llamav2_weights/7b-hf}\n: ${DATASET_PATH=$HOME/book_text_document}\n"
        "torchrun $DISTRIBUTED_ARGS megatron_gpt_pretraining.py  \\\n"
        "    model.optim.lr=3.0e-4 \\\n    model.optim.sched.min_lr=3.0e-5 \\\n"
        "    +exp_manager.checkpoint_callback_params.train_time_interval=36000 \\\n"
        "    exp_manager.resume_if_exists=False \\\n    exp_manager.resume_ignore_no_checkpoint=False \\\n"
    ),
    "llama_7b.sh": (
        "export GBS=256\nTRAIN_ITERS=10000\n"
        "export SEQ_LENGTH=4096\nexport TP=8\nexport PP=1\nexport WARMUP_STEPS=2000\n"
    ),
    "train_setup.sh": (
        "    export EXPLICIT_LOGDIR=null\n    export EXPLICIT_LOGDIR=/shared/nemo_experiments/$POD_UID\n"
        '    LOG_PATH=$EXPLICIT_LOGDIR/$NODEID/\ntraining_precision="bf16SR"\n'
    ),
}


def _git(folder: Path) -> None:
    """A `git` that makes clones of its own, in the folder of the test."""
    script = folder / "git"
    script.write_text(
        '#!/bin/sh\necho "$@" >> "$CALLS"\ncase "$*" in\n'
        '  clone*) for word; do target=$word; done; mkdir -p "$target/.git"; cp -r "$UPSTREAM/." "$target/";;\n'
        '  *checkout*) cp -r "$UPSTREAM/." "${TARGET:-.}/";;\n'
        "  *rev-parse*) echo f4743cef;;\n  ls-files*) ls *.jsonl;;\nesac\n"
    )
    script.chmod(0o755)


def _run_script(folder: Path, stage: str, key: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script of a ConfigMap as the container does, with `/shared` in the folder of the test."""
    script, shared = folder / key, str(folder / "shared")
    for name, text in rendered(stage, "ConfigMap")["data"].items():
        (folder / name).write_text(text.replace("/shared", shared).replace("/config", str(folder)))
    _git(folder)
    (container,) = pod_of(rendered(stage, "Job"))["containers"]
    known = variables(container) | {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "CALLS": str(folder / "calls"),
        "UPSTREAM": str(folder / "upstream"),
        "TARGET": "",
    }
    return subprocess.run(
        ["bash", str(script)],
        cwd=folder,
        env=known | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def _upstream(folder: Path, texts: dict[str, str], below: str = "") -> Path:
    target = folder / "upstream" / below
    target.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (target / name).write_text(text.replace("/shared", str(folder / "shared")))
    return target


_SCRIPTS = "nemo/examples/nlp/language_modeling"


def _configure(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    target = str(folder / "shared" / "neuronx-nemo-megatron")
    return _run_script(folder, "sources", "configure.sh", TARGET=target, **environment)


def test_configuring_changes_every_value_and_can_be_repeated(tmp_path: Path) -> None:
    _upstream(tmp_path, _UPSTREAM, _SCRIPTS)
    first = _configure(tmp_path, LEARNING_RATE="0.001", PRECISION="fp32")
    assert first.returncode == 0, first.stderr
    again = _configure(tmp_path, LEARNING_RATE="0.002", WARMUP_STEPS="7")
    assert again.returncode == 0, again.stderr
    scripts = tmp_path / "shared" / "neuronx-nemo-megatron" / _SCRIPTS
    test = (scripts / "test_llama.sh").read_text()
    shared = tmp_path / "shared"
    assert ": ${TOKENIZER_PATH=/shared/llama7b_tokenizer}\n" in test
    assert ": ${DATASET_PATH=/shared/data/redpajama_sample_text_document}\n" in test
    assert "    model.optim.lr=0.002 \\\n" in test
    assert "    model.optim.sched.min_lr=3e-05 \\\n" in test
    assert "    exp_manager.resume_if_exists=True \\\n    exp_manager.resume_ignore_no_checkpoint=True \\\n" in test
    assert (
        scripts / "llama_7b.sh"
    ).read_text() == "export SEQ_LENGTH=4096\nexport TP=8\nexport PP=1\nexport WARMUP_STEPS=7\n"
    callback = "exp_manager.checkpoint_callback_params"
    assert f"    +{callback}.train_time_interval=7200 {callback}.save_last=True {callback}.save_top_k=0 \\\n" in test
    assert (scripts / "train_setup.sh").read_text() == (
        "    export EXPLICIT_LOGDIR=null\n"
        f"    export EXPLICIT_LOGDIR={shared}/nemo_experiments/${{EXPERIMENT:-$POD_UID}}\n"
        f'    LOG_PATH={shared}/nemo_experiments/$POD_UID/$NODEID/\ntraining_precision="bf16SR"\n'
    )
    assert "Scripts are configured" in again.stdout
    assert _as_the_sandbox_reads(scripts) == ScriptParameters(
        tokenizer="/shared/llama7b_tokenizer",
        dataset="/shared/data/redpajama_sample_text_document",
        learning_rate=0.002,
        warmup_steps=7,
        checkpoint_seconds=7200,
        saves_last=True,
        resumes=True,
        has_experiment=True,
    )


def _as_the_sandbox_reads(scripts: Path) -> ScriptParameters | None:
    """The values that the sandbox's training takes from scripts which the real script has changed."""
    volume = MemoryVolume()
    for name in _UPSTREAM:
        volume.put(f"{SCRIPTS}/{name}".removeprefix("/shared"), (scripts / name).read_bytes())
    return read_scripts(FileView({"/shared": volume}))


def test_a_line_that_is_not_there_ends_the_configuration(tmp_path: Path) -> None:
    _upstream(tmp_path, _UPSTREAM | {"llama_7b.sh": "export TP=8\n"}, _SCRIPTS)
    done = _configure(tmp_path)
    assert done.returncode == 1
    assert (
        "ConfigurationError: llama_7b.sh of commit f4743cef5a1c8dc9eeb6b3d128e01693e041a9be has no line" in done.stderr
    )


def test_the_dataset_is_joined_once_all_files_are_data(tmp_path: Path) -> None:
    _upstream(tmp_path, {"a.jsonl": '{"text": "a"}\n', "b.jsonl": '{"text": "b"}\n'})
    (tmp_path / "shared").mkdir()
    done = _run_script(tmp_path, "dataset", "dataset.sh")
    assert done.returncode == 0, done.stderr
    assert "Downloaded 2 of 2 files: b.jsonl" in done.stdout
    assert (tmp_path / "shared" / "redpajama_sample.jsonl").read_text() == '{"text": "a"}\n{"text": "b"}\n'


def test_a_pointer_in_the_place_of_data_is_an_error(tmp_path: Path) -> None:
    _upstream(tmp_path, {"a.jsonl": "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"})
    (tmp_path / "shared").mkdir()
    done = _run_script(tmp_path, "dataset", "dataset.sh")
    assert done.returncode == 1
    assert "LfsPointerError: a.jsonl is a pointer" in done.stderr
