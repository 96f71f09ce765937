"""EFA and NCCL tests against the device plugin's list of instance types and the options of nccl-tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from actions.base.files import shipped_blueprints
from actions.blueprint.targets import containers_of
from actions.fleet.eks_versions import VersionMatrix
from actions.sandbox.programs.mpirun import request_of
from tests.unit.blueprint.shipped import object_of, shipped
from tests.upstream.sources import source
from tests.upstream.test_manifests import rendered

_JOBS = ("efa-info", "nccl")
_EFA = "vpc.amazonaws.com/efa"
_BLUEPRINTS = sorted(path.parent.name for path in shipped_blueprints().glob("*/blueprint.yaml"))


def pod_of(stage: str, role: str) -> dict[str, Any]:
    """The one container of a role's pods."""
    job = object_of("efa-nccl-tests", stage, "MPIJob", given={}, outputs={})
    (container,) = job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]["containers"]
    return dict(container)


@pytest.mark.parametrize("blueprint", ["efa-nccl-tests", "nemo-gpt3-5b"])
def test_the_device_plugin_runs_on_every_instance_type_that_can_be_chosen(blueprint: str) -> None:
    (plugin,) = (one for one in VersionMatrix.load().components if one.name == "efa_plugin")
    known = source("efa_device_plugin")["versions"][plugin.chart]["instance_types"]
    assert set(shipped(blueprint).parameters["instance_type"].choices) <= set(known)


@pytest.mark.parametrize(
    "release", [source("nccl_tests"), source("nccl_tests")["late"]], ids=lambda one: str(one["tag"])
)
def test_the_measurement_has_only_options_of_nccl_tests(release: Mapping[str, Any]) -> None:
    words = request_of(pod_of("nccl", "Launcher")["args"]).command[1:]
    options = release["options"]
    assert [word for word in words[::2] if word.removeprefix("-") not in options] == []
    assert [options[word.removeprefix("-")] for word in words[::2]] == [
        "minbytes", "maxbytes", "stepfactor", "ngpus", "check", "iters",
    ]  # fmt: skip


@pytest.mark.parametrize("stage", _JOBS)
def test_ranks_find_the_plugin_for_efa_where_the_image_has_it_now_and_had_it_before(stage: str) -> None:
    """Without it NCCL goes over sockets and the test ends well; a rank has no other path than the launcher's."""
    said, launcher = source("nccl_tests_image"), pod_of(stage, "Launcher")
    (path,) = [item["value"] for item in launcher["env"] if item["name"] == "LD_LIBRARY_PATH"]
    assert {*said["libraries"].values(), said["before"]["plugin"]} <= set(path.split(":"))
    assert dict(request_of(launcher["args"]).exported)["LD_LIBRARY_PATH"] is None


@pytest.mark.parametrize("stage", _JOBS)
def test_what_is_started_is_where_the_image_has_it(stage: str) -> None:
    said, launcher = source("nccl_tests_image"), pod_of(stage, "Launcher")
    assert {launcher["command"][0], request_of(launcher["args"]).command[0]} <= set(said["programs"])
    assert pod_of(stage, "Worker")["readinessProbe"]["tcpSocket"] == {"port": said["port"]}


@pytest.mark.parametrize("name", _BLUEPRINTS)
def test_a_pod_with_efa_has_the_huge_pages_that_libfabric_takes_or_it_takes_none(name: str) -> None:
    """The variables that `mpirun -x` passes on count, and the container's own where no ssh starts its programs."""
    said, looked_at = source("efa_huge_pages"), 0
    for manifest in rendered(name, "", {})[1]:
        spec = manifest.get("spec") or {}
        for container in containers_of(manifest):
            limits = (container.get("resources") or {}).get("limits", {})
            if _EFA not in limits:
                continue
            variables = {item["name"]: item.get("value", "") for item in container.get("env", [])}
            if "mpiReplicaSpecs" in spec:
                (launcher,) = spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
                request = request_of(launcher["args"])
                variables = {name: value or "" for name, value in dict(request.exported).items()}
                if request.command[0].rpartition("/")[2] in said["lists_only"]:
                    continue
            takes_none = variables.get(said["variable"]) in said["takes_none"]
            assert takes_none or any(key.startswith("hugepages-") for key in limits), manifest["metadata"]["name"]
            looked_at += 1
    assert bool(looked_at) == ("efa" in shipped(name).uses)
