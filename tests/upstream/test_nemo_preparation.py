"""The preparation of the Pile against the launcher's programs and NeMo's tokenisation."""

from __future__ import annotations

import shlex
from string import Template
from typing import Any

import yaml

from actions.sandbox.programs.mpirun import request_of
from tests.unit.blueprint.shipped import object_of
from tests.upstream.sources import overrides_of, source

_OUTPUTS = {"image": {"image": "registry.example/nemo-aws@sha256:" + "0" * 64}}
_STEPS = ("download", "extract", "preprocess")


def rendered(kind: str) -> dict[str, Any]:
    return object_of("nemo-gpt3-5b", "data", kind, given={}, outputs=_OUTPUTS)


def configuration() -> dict[str, Any]:
    return dict(yaml.safe_load(rendered("ConfigMap")["data"]["config.yaml"]))


def launcher() -> dict[str, Any]:
    (container,) = rendered("MPIJob")["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    return dict(container)


def command_of(step: str) -> list[str]:
    """The words of mpirun for one of the programs, with the container's variables in them."""
    (line,) = [line for line in launcher()["args"][0].split("&&") if f"/{step}.py" in line]
    values = {item["name"]: item["value"] for item in launcher()["env"]}
    return shlex.split(Template(line).safe_substitute(values))


def test_each_program_finds_every_key_that_it_reads() -> None:
    reads = source("nemo_preparation")["reads"]
    assert {step: set(reads[step]) - set(configuration()) for step in _STEPS} == {step: set() for step in _STEPS}


def test_no_key_is_one_that_none_of_the_programs_reads() -> None:
    assert set(configuration()) == {key for keys in source("nemo_preparation")["reads"].values() for key in keys}


def test_every_override_is_of_a_key_that_the_program_reads() -> None:
    for step in _STEPS:
        words = request_of(command_of(step)[1:]).command
        assert set(overrides_of(list(words))) <= set(source("nemo_preparation")["reads"][step]), step


def test_the_values_are_the_published_ones_but_for_the_files() -> None:
    ours, said = configuration(), source("nemo_preparation")["published"]
    assert {key: ours[key] for key in said} == said | {"file_numbers": "0-5"}
    assert ours["cluster_type"] == "k8s"
    assert "gpt3" in ours["data_config"]


def test_the_tokenisation_has_every_flag_that_the_program_gives_it() -> None:
    """argparse also takes a beginning that only one flag has: --vocab."""
    facts = source("nemo_preparation")
    for flag in facts["flags"]:
        assert [name for name in facts["tokenisation"]["flags"] if name.startswith(flag)], flag
    assert set(facts["tokenisation"]["required"]) <= set(facts["flags"])


def test_the_tokenisation_finds_libcuda_on_a_node_without_a_driver() -> None:
    copy = source("nemo_image")["driver"]["copy"]
    exported = dict(request_of(command_of("preprocess")[1:]).exported)
    assert exported["LD_LIBRARY_PATH"] == f"$LD_LIBRARY_PATH:{copy}"
