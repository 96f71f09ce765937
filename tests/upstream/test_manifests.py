"""Every object of three systems, under every preset and unusual parameters: schemas, taints, and room on the nodes."""

from __future__ import annotations

from typing import Any

import pytest

from actions.blueprint.parameters import Binding, bind
from actions.blueprint.parts import Scalar
from actions.blueprint.render import own_objects
from actions.blueprint.stages import ManifestsStage
from actions.blueprint.targets import Manifest
from actions.fleet.instance_types import InstanceTable
from actions.run.checks.cluster import operator_refusal
from tests.unit.blueprint.shipped import object_of, shipped
from tests.unit.blueprint.test_accepted import complaints_about
from tests.unit.fleet.test_eks_versions import component
from tests.upstream.kubernetes_schema import is_builtin, object_complaints, template_complaints
from tests.upstream.sources import source

_TYPE = "node.kubernetes.io/instance-type"
_TAINT = "nvidia.com/gpu"
UNUSUAL: list[tuple[str, dict[str, Scalar]]] = [
    ("nemo-gpt3-5b", {"instance_type": "p5.48xlarge", "nodes": 16, "capacity_type": "CAPACITY_BLOCK",
                      "capacity_reservation_id": "cr-0123456789abcdef0", "tensor_parallel": 8, "pipeline_parallel": 4,
                      "hugepages_mib": 20480, "worker_memory_gib": 1900, "global_batch_size": 256,
                      "restart_policy": "Never", "max_restarts": 0, "data": "existing"}),
    ("nemo-gpt3-5b", {"image_source": "given", "image": "registry.example/nemo:1", "remove_done": True, "files": 12,
                      "first_file": 18, "prep_workers": 4, "prep_cpus": 1, "data_repository": True, "nodes": 1}),
    ("nemo-gpt3-5b", {"prep_memory_gib": 8, "core_instance_type": "c5.2xlarge", "wandb_logger": True}),
    ("efa-nccl-tests", {"instance_type": "p5en.48xlarge", "nodes": 4, "gpus_per_worker": 4, "efa_per_worker": 8,
                        "memory_mib": 1000000, "hugepages_mib": 20480, "device_rdma": "off", "nccl_debug": "TRACE"}),
    ("efa-nccl-tests", {"instance_type": "g5.48xlarge", "capacity_type": "SPOT", "min_bytes": 1024, "check_values": 0,
                        "image": "public.ecr.aws/hpc-cloud/nccl-tests@sha256:" + "0" * 64, "launcher_retries": 1}),
    ("bionemo-esm1nv", {"instance_type": "g5.48xlarge", "workers": 2, "gpus_per_worker": 8, "capacity_type": "spot",
                        "worker_memory_gib": 600, "data": "sample", "num_csv_files": 999, "image_tag": "1.10.1"}),
    ("bionemo-esm1nv", {"instance_type": "g5.8xlarge", "workers": 64, "worker_memory_gib": 100, "data": "existing",
                        "container_restarts": 0, "max_restarts": 0, "wandb_logger": True}),
]  # fmt: skip
CASES = [
    *((name, preset, {}) for name in sorted({name for name, _ in UNUSUAL}) for preset in ("", *shipped(name).presets)),
    *((name, "", given) for name, given in UNUSUAL),
]


def rendered(name: str, preset: str, given: dict[str, Scalar]) -> tuple[Binding, list[Manifest]]:
    """The parameters, and the objects of all stages with a text for what earlier stages report."""
    blueprint = shipped(name)
    binding = bind(blueprint, given, preset=preset)
    reported: dict[str, dict[str, str]] = {}
    for wire in (wire for stage in blueprint.stages for wire in stage.sets):
        stage_id, _, output = wire.source.partition(".")
        reported.setdefault(stage_id, {})[output] = "reported"
    return binding, [item for stage in blueprint.stages for item in own_objects(blueprint, stage, binding, reported)]


def templates_of(manifest: Manifest) -> list[dict[str, Any]]:
    """The pod templates of a job."""
    spec = manifest.get("spec") or {}
    groups = spec.get("mpiReplicaSpecs") or spec.get("pytorchReplicaSpecs") or {}
    return [group["template"] for group in groups.values()] or ([spec["template"]] if manifest["kind"] == "Job" else [])


def wants_accelerator(template: dict[str, Any]) -> bool:
    (container,) = template["spec"]["containers"]
    return _TAINT in container["resources"].get("limits", {})


@pytest.mark.parametrize(("name", "preset", "given"), CASES)
def test_every_object_is_one_that_kubernetes_and_the_operators_know(
    name: str, preset: str, given: dict[str, Scalar]
) -> None:
    for manifest in rendered(name, preset, given)[1]:
        assert complaints_about(manifest) == [], manifest["metadata"]["name"]
        if is_builtin(manifest):
            assert object_complaints(manifest) == []
        for template in templates_of(manifest):
            if manifest["kind"] != "Job":
                assert template_complaints({"spec": {**template["spec"], "restartPolicy": "Never"}}) == []


def test_a_field_that_is_unknown_or_missing_is_found() -> None:
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"jobTemplate": {"spec": {"backofLimit": 1}}}}
    assert object_complaints(cron) == [
        "CronJob.spec.jobTemplate.spec.backofLimit is no field of V1JobSpec",
        "CronJob.spec.jobTemplate.spec.template is missing",
        "CronJob.spec.schedule is missing",
    ]


@pytest.mark.parametrize(("name", "preset", "given"), CASES)
def test_pods_with_accelerators_go_to_their_nodes_and_others_stay_away(
    name: str, preset: str, given: dict[str, Scalar]
) -> None:
    binding, objects = rendered(name, preset, given)
    for template in (template for manifest in objects for template in templates_of(manifest)):
        tolerated = [toleration["key"] for toleration in template["spec"].get("tolerations", [])]
        selector = template["spec"].get("nodeSelector", {})
        if wants_accelerator(template):
            assert tolerated == [_TAINT]
            assert selector == {_TYPE: binding.values["instance_type"]}
        else:
            assert (tolerated, selector) == ([], {})


@pytest.mark.parametrize(("name", "preset", "given"), CASES)
def test_a_pod_with_accelerators_fits_on_its_node_beside_what_runs_there(
    name: str, preset: str, given: dict[str, Scalar]
) -> None:
    """Kernel, EKS and the huge pages that the image reserves take 7 % and less of the memory, and at most a CPU."""
    binding, objects = rendered(name, preset, given)
    node = InstanceTable.load().find(str(binding.values["instance_type"]))
    assert node is not None
    for template in (template for manifest in objects for template in templates_of(manifest)):
        if wants_accelerator(template):
            (container,) = template["spec"]["containers"]
            wanted = container["resources"].get("limits", {}) | container["resources"].get("requests", {})
            amounts = {key: amount_of(value) for key, value in wanted.items()}
            assert amounts.get("memory", 0) <= node.memory_bytes / 1.07
            assert amounts.get("cpu", 0) <= node.vcpu - 1
            assert amounts[_TAINT] <= node.gpus
            assert amounts.get("vpc.amazonaws.com/efa", 0) <= (node.efa_interfaces or 0)


@pytest.mark.parametrize(("name", "preset", "given"), CASES)
def test_a_pod_without_accelerators_fits_on_a_core_node(name: str, preset: str, given: dict[str, Scalar]) -> None:
    """Beside DNS, drivers and operators, which take half a CPU of each; less memory is for pods than on large nodes."""
    binding, objects = rendered(name, preset, given)
    node = InstanceTable.load().find(str(binding.values["core_instance_type"]))
    assert node is not None
    for template in (template for manifest in objects for template in templates_of(manifest)):
        if not wants_accelerator(template):
            (container,) = template["spec"]["containers"]
            requests = container["resources"]["requests"]
            assert amount_of(requests["memory"]) <= node.memory_bytes / 1.12
            assert amount_of(requests["cpu"]) <= node.vcpu - 0.5


def amount_of(quantity: str | int) -> float:
    """A quantity in bytes or pieces; those of these manifests have no other units."""
    text = str(quantity)
    if text.endswith("m"):
        return int(text[:-1]) / 1000
    units = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
    return int(text[:-2]) * units[text[-2:]] if text[-2:] in units else int(text)


@pytest.mark.parametrize(
    ("name", "days"), [("bionemo-esm1nv", 4), ("llama2-trn1-ray", 3)], ids=["bionemo-esm1nv", "llama2-trn1-ray"]
)
def test_karpenter_replaces_no_node_of_a_training(name: str, days: int) -> None:
    """Every new image of Amazon Linux lets nodes drift; only empty ones may go."""
    pool = object_of(name, "pool", "NodePool", given={}, outputs={})["spec"]
    limits = {reason: budget["nodes"] for budget in pool["disruption"]["budgets"] for reason in budget["reasons"]}
    assert set(limits) == set(source("karpenter")["reasons"])
    assert {reason for reason, nodes in limits.items() if nodes != "0"} == {"Empty"}
    assert pool["disruption"]["consolidationPolicy"] == "WhenEmpty"
    assert int(pool["template"]["spec"]["expireAfter"].removesuffix("h")) > 2 * days * 24


@pytest.mark.parametrize("version", source("mpi_operator")["versions"], ids=lambda found: str(found["version"]))
@pytest.mark.parametrize("name", ["efa-nccl-tests", "llama2-trn1-mpi", "nemo-gpt3-5b"])
def test_an_mpi_operator_that_refuses_the_jobs_is_refused_itself(name: str, version: dict[str, Any]) -> None:
    blueprint = shipped(name)
    _, objects = rendered(name, "", {})
    jobs = [item for item in objects if item["kind"] == "MPIJob"]
    assert {job["spec"]["launcherCreationPolicy"] for job in jobs} == {"WaitForWorkersReady"}
    (stage,) = [each for each in blueprint.stages if each.id == "mpi-operator"]
    assert isinstance(stage, ManifestsStage)
    container = {"name": "mpi-operator", "image": version["image"], "args": ["-alsologtostderr"]}
    found = {"kind": "Deployment", "spec": {"template": {"spec": {"containers": [container]}}}}
    assert (operator_refusal(found, stage.refuses) is None) == version["waits_for_workers"]


@pytest.mark.parametrize("name", ["volcano", "kuberay", "mpi-operator", "training-operator"])
def test_the_table_has_the_versions_of_kubernetes_that_an_operators_authors_name(name: str) -> None:
    said, found = source("operators_kubernetes")[name], component(name)
    listed = said.get("declared") or said.get("tested") or [said["at_least"]]
    assert found.app == said["release"]
    assert found.kubernetes_min == listed[0]
    assert found.kubernetes_max == ("" if "at_least" in said else listed[-1])
