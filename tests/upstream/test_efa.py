"""EFA and NCCL tests against the device plugin's list of instance types and the options of nccl-tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from actions.fleet.eks_versions import VersionMatrix
from actions.sandbox.programs.mpirun import request_of
from tests.unit.blueprint.shipped import object_of, shipped
from tests.upstream.sources import source

_JOBS = ("efa-info", "nccl")


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
