"""EFA and NCCL tests against the device plugin's list of instance types and the options of nccl-tests."""

from __future__ import annotations

import pytest

from actions.fleet.eks_versions import VersionMatrix
from actions.sandbox.programs.mpirun import request_of
from tests.unit.blueprint.shipped import object_of, shipped
from tests.upstream.sources import source


@pytest.mark.parametrize("blueprint", ["efa-nccl-tests", "nemo-gpt3-5b"])
def test_the_device_plugin_runs_on_every_instance_type_that_can_be_chosen(blueprint: str) -> None:
    (plugin,) = (one for one in VersionMatrix.load().components if one.name == "efa_plugin")
    known = source("efa_device_plugin")["versions"][plugin.chart]["instance_types"]
    assert set(shipped(blueprint).parameters["instance_type"].choices) <= set(known)


def test_the_measurement_has_only_options_of_nccl_tests() -> None:
    job = object_of("efa-nccl-tests", "nccl", "MPIJob", given={}, outputs={})
    (container,) = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    words = request_of(container["args"]).command[1:]
    options = source("nccl_tests")["options"]
    assert [word for word in words[::2] if word.removeprefix("-") not in options] == []
    assert [options[word.removeprefix("-")] for word in words[::2]] == [
        "minbytes", "maxbytes", "stepfactor", "ngpus", "check", "iters",
    ]  # fmt: skip
