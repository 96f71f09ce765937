"""The traps of the Llama-2 system on Trainium with Ray, held down one by one in what is rendered."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from actions.base.errors import ParameterError
from actions.base.files import asset
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import bind, skipped_stages
from actions.blueprint.parts import Scalar
from actions.blueprint.stages import JobStage, ManifestsStage, TerraformStage
from tests.unit.blueprint.shipped import object_of, shipped

_IMAGE = "registry.example/kuberay_trn1@sha256:" + "0" * 64
_REPORTED = {
    "image": {"image": _IMAGE},
    "filesystem": {"fsx_id": "fs-1", "fsx_dns_name": "fs-1.fsx", "fsx_mount_name": "fsx"},
}
_RAY_JOBS = ("data", "precompile", "train")


def blueprint() -> Blueprint:
    return shipped("llama2-trn1-ray")


def rendered(stage: str, kind: str, **given: Scalar) -> dict[str, Any]:
    return object_of("llama2-trn1-ray", stage, kind, given=given, outputs=_REPORTED)


def words(stage: str, **given: Scalar) -> list[str]:
    return str(rendered(stage, "RayJob", **given)["spec"]["entrypoint"]).split()


def gang(**given: Scalar) -> tuple[dict[str, Any], dict[str, Any]]:
    spec = rendered("cluster", "RayCluster", **given)["spec"]
    return spec["headGroupSpec"], spec["workerGroupSpecs"][0]


@pytest.mark.parametrize("stage", _RAY_JOBS)
def test_no_job_has_a_deadline_or_a_clean_up_that_would_not_act(stage: str) -> None:
    spec = rendered(stage, "RayJob")["spec"]
    assert not {"activeDeadlineSeconds", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished"} & spec.keys()
    assert spec["clusterSelector"] == {"ray.io/cluster": "kuberay-trn1"}


@pytest.mark.parametrize("stage", _RAY_JOBS)
def test_ray_hides_no_line_and_knows_its_environment(stage: str) -> None:
    environment = yaml.safe_load(rendered(stage, "RayJob")["spec"]["runtimeEnvYAML"])
    assert environment["env_vars"]["RAY_DEDUP_LOGS"] == "0"
    assert environment["working_dir"] == "/llama2_pretrain"
    assert "resources" not in environment


@pytest.mark.parametrize("stage", _RAY_JOBS)
def test_the_pods_of_submitters_are_the_runs_own(stage: str) -> None:
    template = rendered(stage, "RayJob", image_source="build")["spec"]["submitterPodTemplate"]
    assert template["metadata"]["labels"]["eksml.dev/run"] == "r"
    assert template["spec"]["containers"][0]["image"] == _IMAGE


def test_jobs_come_strictly_one_after_another() -> None:
    needs = {stage.id: stage.needs for stage in blueprint().stages}
    assert needs["train"] == ("precompile", "tensorboard", "exporters")
    assert needs["precompile"] == ("data",)
    assert needs["data"] == ("cluster",)


def test_volcano_is_there_before_kuberay_starts_and_the_queue_before_the_gang() -> None:
    stages = {stage.id: stage for stage in blueprint().stages}
    volcano = stages["volcano"]
    assert isinstance(volcano, ManifestsStage)
    assert "podgroups.scheduling.volcano.sh" in {name.name for name in volcano.ready}
    assert stages["kuberay"].needs == ("volcano",)
    assert {"kuberay", "queue"} <= set(stages["preflight"].needs)


def test_what_shapes_the_graphs_is_the_same_in_compilation_and_training() -> None:
    given: dict[str, Scalar] = {
        "tensor_parallel": 16,
        "grad_accum_usteps": 64,
        "num_layers": 4,
        "data_dir": "/shared/blocks",
    }
    shapes = ("--num_nodes=", "--tensor_parallel_size=", "--batch_size=", "--grad_accum_usteps=", "--seq_len=",
              "--num_layers=", "--data_dir=", "/llama2_launch/")  # fmt: skip
    compiled, trained = (
        [word for word in words(stage, **given) if word.startswith(shapes)] for stage in ("precompile", "train")
    )
    assert sorted(compiled) == sorted(trained)
    head, _ = gang(switches="--use_mix_precision")
    assert {"name": "LLAMA2_SWITCHES", "value": "--use_mix_precision"} in head["template"]["spec"]["containers"][0][
        "env"
    ]


def test_metrics_and_checkpoints_outlive_the_head() -> None:
    found = words("train", output_dir="/shared/elsewhere")
    assert "--metrics_file=/shared/elsewhere/results.json" in found
    assert "--checkpoint_dir=/shared/elsewhere/checkpoints" in found


def test_the_version_of_datasets_is_pinned_where_the_image_does_not() -> None:
    pinned = yaml.safe_load(rendered("data", "RayJob", datasets_version="2.20.0")["spec"]["runtimeEnvYAML"])
    assert pinned["pip"] == ["datasets==2.20.0"]


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_workers_are_as_many_as_nodes_and_never_fewer(nodes: int) -> None:
    _, group = gang(nodes=nodes, grad_accum_usteps=64 // nodes, global_batch_size=64 // nodes * nodes * 4)
    assert [group[name] for name in ("replicas", "minReplicas", "maxReplicas")] == [nodes] * 3


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"nodes": 4}, "requests 1790 GiB .* admits 1500"),
        ({"nodes": 4, "queue_memory_gib": 1800, "grad_accum_usteps": 16, "queue_cpus": 400}, "requests 486 CPUs"),
        ({"nodes": 1}, "is 128 sequences a step, not global_batch_size 256"),
        ({"nodes": 3}, "is 384 sequences a step"),
        ({"head_memory_gib": 62}, "does not fit beside the system of m5.4xlarge"),
        ({"tensor_parallel": 32, "nodes": 1, "grad_accum_usteps": 256, "switches": "--nonsense"}, "switches is"),
    ],
)
def test_what_could_not_run_is_refused_in_one_sentence(given: dict[str, Scalar], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        bind(blueprint(), given)


@pytest.mark.parametrize(
    "given",
    [
        {"nodes": 1, "grad_accum_usteps": 64},
        {"nodes": 4, "grad_accum_usteps": 16, "queue_memory_gib": 1790},
        {"nodes": 3, "global_batch_size": 384},
    ],
)
def test_what_the_guide_allows_is_accepted(given: dict[str, Scalar]) -> None:
    assert bind(blueprint(), given).values["nodes"] == given["nodes"]


def test_only_the_chosen_way_to_data_and_image_is_taken() -> None:
    def skipped(**given: Scalar) -> set[str]:
        return set(skipped_stages(blueprint(), bind(blueprint(), given)))

    chosen = {"tensorboard": True, "exporters": True}
    assert skipped(**chosen) == {"registry", "image", "sample"}
    assert skipped(data="sample", image_source="build", **chosen) == {"data"}
    given_all = skipped(data="existing", precompile=False, **chosen)
    assert given_all == {"registry", "image", "sample", "data", "precompile"}


def test_the_file_system_is_a_static_volume_that_no_driver_makes_again() -> None:
    volume, claim = (rendered("volumes", kind)["spec"] for kind in ("PersistentVolume", "PersistentVolumeClaim"))
    assert volume["storageClassName"] == claim["storageClassName"] == ""
    assert claim["volumeName"] == "llama2-ray-fsx-pv"
    assert volume["persistentVolumeReclaimPolicy"] == "Retain"


def test_nodes_bear_the_labels_that_the_gang_selects() -> None:
    head, group = gang()
    nodes = blueprint().stage("nodes")
    assert isinstance(nodes, TerraformStage)
    assert '"instance-type":"trn1-32xl"' in str(nodes.values["labels"])
    assert group["template"]["spec"]["nodeSelector"] == {"instance-type": "trn1-32xl"}
    labels = rendered("pool", "NodePool")["spec"]["template"]["metadata"]["labels"]
    assert head["template"]["spec"]["nodeSelector"].items() <= labels.items()


def test_the_log_of_all_workers_is_that_of_the_submitter_and_devices_are_the_workers() -> None:
    train = blueprint().stage("train")
    assert isinstance(train, JobStage)
    assert train.watch is not None
    assert train.watch.logs is not None
    assert train.watch.logs.pods == f"batch.kubernetes.io/job-name={train.target.name}"
    assert "ray.io/node-type=worker" in train.watch.devices


def test_its_scripts_are_there() -> None:
    for name in ("llama2-trn1-ray", "llama2-trn1-ray-fails"):
        assert yaml.safe_load(asset(f"scripts/{name}.yaml").read_text(encoding="utf-8"))["always"]
