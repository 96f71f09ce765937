"""The traps of the EFA and NCCL tests, held down one by one in what is rendered."""

from __future__ import annotations

import re
from typing import Any

import pytest

from actions.base.errors import ParameterError
from actions.base.files import shipped_blueprints
from actions.blueprint.checks import NodesCheck, PodsCheck
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import bind
from actions.blueprint.parts import Scalar
from actions.blueprint.render import tfvars_of
from actions.blueprint.stages import CheckStage
from actions.sandbox.programs.mpirun import request_of
from tests.unit.blueprint.shipped import object_of, shipped

_JOBS = {"efa-info": "efa-info-test", "nccl": "efa-nccl-test"}
_NETWORK = {
    "capacity": {"placement_group": ""},
    "network": {"storage_subnet_id": "subnet-1"},
    "provision": {"node_security_group_id": "sg-1"},
}


def blueprint() -> Blueprint:
    return shipped("efa-nccl-tests")


def job(stage: str, **given: Scalar) -> dict[str, Any]:
    return object_of("efa-nccl-tests", stage, "MPIJob", given=given, outputs={})


def container_of(stage: str, role: str, **given: Scalar) -> dict[str, Any]:
    (container,) = job(stage, **given)["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]["containers"]
    return dict(container)


def exported(**given: Scalar) -> dict[str, str | None]:
    return dict(request_of(container_of("nccl", "Launcher", **given)["args"]).exported)


@pytest.mark.parametrize(
    ("instance_type", "gpus", "efa", "rdma"),
    [("g5.8xlarge", 1, 1, "0"), ("g5.48xlarge", 8, 1, "0"), ("p4d.24xlarge", 8, 4, "1"), ("p5.48xlarge", 8, 32, "1")],
)
def test_everything_follows_from_the_instance_type(instance_type: str, gpus: int, efa: int, rdma: str) -> None:
    given: dict[str, Scalar] = {"instance_type": instance_type, "nodes": 3}
    for stage in _JOBS:
        spec = job(stage, **given)["spec"]
        worker = container_of(stage, "Worker", **given)
        request = request_of(container_of(stage, "Launcher", **given)["args"])
        assert (spec["slotsPerWorker"], request.processes) == (gpus, 3 * gpus)
        assert worker["resources"]["requests"] == worker["resources"]["limits"]
        assert worker["resources"]["limits"]["nvidia.com/gpu"] == gpus
        assert worker["resources"]["limits"]["vpc.amazonaws.com/efa"] == efa
        selector = spec["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["nodeSelector"]
        assert selector == {"node.kubernetes.io/instance-type": instance_type}
    assert exported(**given)["FI_EFA_USE_DEVICE_RDMA"] == rdma


@pytest.mark.parametrize(("said", "rdma"), [("auto", "0"), ("off", "0"), ("on", "1")])
def test_who_insists_on_rdma_gets_it(said: str, rdma: str) -> None:
    assert exported(device_rdma=said)["FI_EFA_USE_DEVICE_RDMA"] == rdma


def test_fewer_gpus_and_interfaces_than_a_node_has_can_be_asked_for_but_not_more() -> None:
    given: dict[str, Scalar] = {"instance_type": "p5.48xlarge", "gpus_per_worker": 4, "efa_per_worker": 16}
    limits = container_of("nccl", "Worker", **given)["resources"]["limits"]
    assert (limits["nvidia.com/gpu"], limits["vpc.amazonaws.com/efa"]) == (4, 16)
    for name in ("gpus_per_worker", "efa_per_worker"):
        with pytest.raises(ParameterError, match=r"but g5\.8xlarge has 1\."):
            bind(blueprint(), {name: 2})


def test_the_test_has_the_options_of_the_guide() -> None:
    request = request_of(container_of("nccl", "Launcher")["args"])
    assert " ".join(request.command) == "/opt/nccl-tests/build/all_reduce_perf -b 8 -e 16G -f 2 -g 1 -c 1 -n 100"
    assert (request.per_node, request.is_tagged, request.as_root) == (1, True, True)
    assert dict(request.exported) == {
        "PATH": None,
        "LD_LIBRARY_PATH": None,
        "FI_PROVIDER": "efa",
        "FI_EFA_USE_DEVICE_RDMA": "0",
        "FI_EFA_FORK_SAFE": "1",
        "NCCL_DEBUG": "INFO",
        "NCCL_BUFFSIZE": "8388608",
        "NCCL_P2P_NET_CHUNKSIZE": "524288",
    }


def test_parameters_reach_the_places_of_the_options() -> None:
    given: dict[str, Scalar] = {
        "min_bytes": 1024,
        "max_bytes": "1G",
        "step_factor": 4,
        "check_values": 0,
        "iterations": 7,
    }
    request = request_of(container_of("nccl", "Launcher", **given)["args"])
    assert " ".join(request.command[1:]) == "-b 1024 -e 1G -f 4 -g 1 -c 0 -n 7"


@pytest.mark.parametrize("stage", _JOBS)
def test_launchers_wait_for_workers_and_stay_off_gpu_nodes(stage: str) -> None:
    spec = job(stage)["spec"]
    launcher = spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    assert spec["launcherCreationPolicy"] == "WaitForWorkersReady"
    assert spec["runPolicy"] == {"cleanPodPolicy": "Running", "backoffLimit": 4}
    assert "tolerations" not in launcher
    assert "nvidia.com/gpu" not in launcher["containers"][0]["resources"]["requests"]
    assert container_of(stage, "Worker")["readinessProbe"]["tcpSocket"] == {"port": 22}
    assert not any("$" in item["value"] for item in launcher["containers"][0]["env"])


def test_huge_pages_are_the_same_in_request_and_limit_with_memory_beside_them() -> None:
    resources = container_of("nccl", "Worker", hugepages_mib=2048, memory_mib=16000)["resources"]
    assert resources["requests"] == resources["limits"]
    assert (resources["limits"]["hugepages-2Mi"], resources["limits"]["memory"]) == ("2048Mi", "16000Mi")


def test_a_worker_that_fits_on_no_node_is_refused() -> None:
    """It would be pending on GPU nodes that are paid for."""
    with pytest.raises(ParameterError, match=r"131072 MiB with its huge pages, but g5\.8xlarge leaves about 117028"):
        bind(blueprint(), {"memory_mib": 131072 - 5120})


def test_nodes_have_efa_in_one_subnet_and_one_placement_group_and_come_last() -> None:
    values = tfvars_of(blueprint(), "nodes", bind(blueprint(), {"nodes": 4}), run_id="r", outputs=_NETWORK)
    assert (values["node_count"], values["efa"], values["placement_group"]) == (4, True, True)
    assert (values["subnet_ids"], values["ami_type"]) == ("subnet-1", "AL2023_x86_64_NVIDIA")
    order = [stage.id for stage in blueprint().stages]
    assert order.index("nodes") > max(order.index(name) for name in ("network", "provision", "preflight"))
    assert blueprint().stage("nodes").holds_accelerators


def test_nothing_runs_before_every_node_offers_what_the_workers_ask_for() -> None:
    fabric = blueprint().stage("fabric")
    assert isinstance(fabric, CheckStage)
    resources = {check.resource for check in fabric.checks if isinstance(check, NodesCheck)}
    assert resources == {"nvidia.com/gpu", "vpc.amazonaws.com/efa", "hugepages-2Mi"}
    plugins = {check.selector: check.is_required for check in fabric.checks if isinstance(check, PodsCheck)}
    assert plugins == {"app.kubernetes.io/name=nvidia-device-plugin": False, "name=aws-efa-k8s-device-plugin": False}
    assert blueprint().stage("efa-info").needs == ("fabric", "exporters")


def test_helm_releases_go_before_the_cluster_that_they_are_in() -> None:
    root = (shipped_blueprints() / "common" / "terraform" / "cluster" / "main.tf").read_text(encoding="utf-8")
    releases = re.findall(r'^resource "helm_release" "(\w+)" \{(.*?)^\}', root, re.DOTALL | re.MULTILINE)
    assert {"nvidia_device_plugin", "efa_device_plugin"} <= {name for name, _ in releases}
    assert all(re.search(r"depends_on\s*=\s*\[[^\]]*module\.eks\b", body) for _, body in releases)
