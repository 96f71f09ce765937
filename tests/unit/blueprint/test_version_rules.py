"""Versions that belong together: blueprints and roots name those of the table; what excludes each other is refused."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from actions.base.errors import ParameterError
from actions.base.files import asset, shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.checks import VersionCheck
from actions.blueprint.parameters import bind
from actions.blueprint.stages import CapacityStage, CheckStage, ManifestsStage, TerraformStage
from actions.blueprint.version_rules import choice_notes, require_together, support_type, undeclared_pairs
from actions.fleet.eks_versions import Support, VersionMatrix
from tests.unit.fleet.test_eks_versions import component

MATRIX = VersionMatrix.load()
SHIPPED = ("bionemo-esm1nv", "efa-nccl-tests", "llama2-trn1-mpi", "llama2-trn1-ray", "nemo-gpt3-5b")
CLUSTER = shipped_blueprints() / "common" / "terraform" / "cluster"


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_installed_by_default_is_declared_for_the_default_and_all_that_eks_offers_can_be_chosen(
    name: str,
) -> None:
    blueprint = load_blueprint(shipped_blueprints() / name)
    parameter = blueprint.parameters["eks_version"]
    assert MATRIX.support_of(str(parameter.default), MATRIX.as_of) is Support.STANDARD
    assert undeclared_pairs(blueprint, bind(blueprint, {}), str(parameter.default)) == []
    offered = [entry.version for entry in MATRIX.eks if entry.support_on(MATRIX.as_of) is not Support.ENDED]
    assert list(parameter.choices) == offered


@pytest.mark.parametrize("name", SHIPPED)
def test_every_operator_is_in_the_table_at_its_version(name: str) -> None:
    stages = load_blueprint(shipped_blueprints() / name).stages
    sources = [stage.source for stage in stages if isinstance(stage, ManifestsStage) and stage.source is not None]
    assert sources
    for source in sources:
        found = component(source.name)
        assert (found.app, found.chart) == (source.version, "")
        assert found.kubernetes_min
        assert source.name in MATRIX.sources


def test_a_pair_that_nobody_declares_is_told_with_the_version_for_which_all_is() -> None:
    blueprint = load_blueprint(shipped_blueprints() / "llama2-trn1-ray")
    note = choice_notes(blueprint, bind(blueprint, {"eks_version": "1.36"}), MATRIX.as_of)[0]
    assert (
        "Volcano 1.15.1 with Kubernetes 1.36 is a pair that its authors do not declare; they name 1.24 to 1.35." in note
    )
    assert "Linux 6.18 with Kubernetes 1.36; no mount on one after 6.12 is known." in note
    assert note.endswith("With eks_version=1.35 each of these pairs is declared.")
    assert "KubeRay" not in note
    assert choice_notes(blueprint, bind(blueprint, {"eks_version": "1.36"}, preset="rehearsal"), MATRIX.as_of) == ()


def test_what_a_cluster_has_already_is_not_held_against_its_version() -> None:
    blueprint = load_blueprint(shipped_blueprints() / "llama2-trn1-ray")
    binding = bind(blueprint, {}, existing_cluster=True)
    assert [found.partition(" ")[0] for found in undeclared_pairs(blueprint, binding, "v1.37.1-eks-1")] == ["Volcano"]
    assert undeclared_pairs(blueprint, binding, "v1.37.1-eks-1", ["volcano"]) == []


@pytest.mark.parametrize(
    ("name", "given", "moving"),
    [
        ("llama2-trn1-ray", {}, "public.ecr.aws/data-on-eks/ray-pytorch-training-neuronx:latest: the tag moves"),
        ("efa-nccl-tests", {}, "public.ecr.aws/hpc-cloud/nccl-tests:latest: the tag moves"),
        ("efa-nccl-tests", {"image": "registry.example/nccl"}, "registry.example/nccl: the tag moves"),
        ("efa-nccl-tests", {"image": "registry.example/nccl:cuda12.8.1-efa1.43.2"}, ""),
        ("efa-nccl-tests", {"image": "registry.example:5000/nccl@sha256:" + "0" * 64}, ""),
        ("llama2-trn1-ray", {"image_source": "build"}, ""),
        ("bionemo-esm1nv", {}, ""),
        ("nemo-gpt3-5b", {}, ""),
        ("llama2-trn1-mpi", {}, ""),
    ],
)
def test_an_image_whose_tag_moves_is_told(name: str, given: dict[str, Any], moving: str) -> None:
    blueprint = load_blueprint(shipped_blueprints() / name)
    notes = choice_notes(blueprint, bind(blueprint, given), MATRIX.as_of)
    assert [note.startswith(moving) for note in notes] == [True] * bool(moving)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_choice_of_version_and_instance_type_works_together_today(name: str) -> None:
    blueprint = load_blueprint(shipped_blueprints() / name)
    for version in blueprint.parameters["eks_version"].choices:
        require_together(blueprint, bind(blueprint, {"eks_version": version}), MATRIX.as_of)
    for kind in blueprint.parameters["instance_type"].choices:
        require_together(blueprint, bind(blueprint, {"instance_type": kind} | _room(name)), MATRIX.as_of)


def _room(name: str) -> dict[str, Any]:
    return {"worker_memory_gib": 20} if name == "bionemo-esm1nv" else {}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_cluster_that_is_newer_than_the_table_is_not_refused(name: str) -> None:
    checks = [
        check
        for stage in load_blueprint(shipped_blueprints() / name).stages
        if isinstance(stage, CheckStage)
        for check in stage.checks
        if isinstance(check, VersionCheck)
    ]
    assert checks
    assert all(not check.maximum for check in checks)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_zone_is_chosen_before_anything_is_made_and_everything_stands_in_it(name: str) -> None:
    blueprint = load_blueprint(shipped_blueprints() / name)
    first, network = blueprint.stages[:2]
    assert isinstance(first, CapacityStage)
    assert not first.holds
    assert (network.id, network.needs) == ("network", ("capacity",))
    assert [(wire.source, wire.tfvar) for wire in network.sets] == [("capacity.zone", "zone")]
    assert blueprint.parameters["zone"].default == "auto"
    for text in ("us-west-2d", "usw2-az4", "apne1-az4", "cac1-az1", ""):
        bind(blueprint, {"zone": text})
    with pytest.raises(ParameterError, match="zone is"):
        bind(blueprint, {"zone": "the second one"})


@pytest.mark.parametrize("name", [name for name in SHIPPED if name != "bionemo-esm1nv"])
def test_nodes_wait_for_their_reservation_and_stand_in_its_placement_group(name: str) -> None:
    blueprint = load_blueprint(shipped_blueprints() / name)
    wait, nodes = blueprint.stage("reservation"), blueprint.stage("nodes")
    assert isinstance(wait, CapacityStage)
    assert wait.is_awaited
    assert {"reservation", "capacity"} <= set(nodes.needs)
    assert ("capacity.placement_group", "placement_group_name") in [(wire.source, wire.tfvar) for wire in nodes.sets]


def test_the_charts_of_the_cluster_root_are_those_of_the_table() -> None:
    text = (CLUSTER / "variables.tf").read_text(encoding="utf-8")
    defaults = dict(
        re.findall(r'^variable "(\w+)_version" \{[^}]*?default\s*=\s*"([^"]+)"', text, re.MULTILINE | re.DOTALL)
    )
    assert {component.name: component.chart for component in MATRIX.components if component.chart} == defaults
    main = (CLUSTER / "main.tf").read_text(encoding="utf-8")
    assert all(f"= var.{component.name}_version" in main for component in MATRIX.components if component.chart)
    assert not re.search(r'^\s+version\s*=\s*"v?[0-9.]+"\n\s+wait', main, re.MULTILINE)


def test_karpenter_may_call_what_its_chart_calls_and_the_module_does_not_allow() -> None:
    main = (CLUSTER / "main.tf").read_text(encoding="utf-8")
    policy = re.search(r'resource "aws_iam_role_policy" "karpenter_reads" \{.*?^\}', main, re.MULTILINE | re.DOTALL)
    assert policy is not None
    reads = component("karpenter").reads
    assert set(re.findall(r'"((?:ec2|iam):\w+)"', policy[0])) == set(reads)
    assert "aws_iam_role_policy.karpenter_reads" in main.partition('resource "helm_release" "karpenter"')[2]


def test_no_subnet_stands_in_a_zone_that_eks_refuses() -> None:
    main = (shipped_blueprints() / "common" / "terraform" / "network" / "main.tf").read_text(encoding="utf-8")
    listed = re.search(r"exclude_zone_ids = (\[.*?\])", main)
    assert listed is not None
    assert set(json.loads(listed[1])) == MATRIX.forbidden_zone_ids


def test_roots_stand_in_for_each_other_with_the_same_variables() -> None:
    blueprint = load_blueprint(shipped_blueprints() / "llama2-trn1-mpi")
    wired = {wire.tfvar for stage in blueprint.stages if isinstance(stage, TerraformStage) for wire in stage.sets}
    assert {"zone", "placement_group_name"} <= wired


ROOT = """
variable "eks_version" { default = "1.36" }
variable "karpenter" { default = false }
variable "efa_plugin" { default = false }
"""
NODES = """
variable "instance_type" { default = "" }
variable "ami_type" { default = "" }
variable "efa" { default = false }
"""
BLUEPRINT = """
schema: eksml/v1
id: small
title: A small run
summary: For tests.
cluster: {{name: small, region: us-west-2}}
parameters:
  eks_version: {{type: text, title: Version, default: "1.36", sets: [{{tfvar: eks_version}}]}}
  instance_type: {{type: text, title: Type, default: p5.48xlarge, sets: [{{tfvar: instance_type}}]}}
stages:
  - {{id: provision, kind: terraform, title: Cluster, root: cluster, expect: 1s..5s, own_cluster_only: true,
     values: {{karpenter: true, efa_plugin: true}}}}
  - {{id: nodes, kind: terraform, title: Nodes, root: nodes, expect: 1s..5s, own_cluster_only: true,
     values: {{ami_type: {ami}, efa: true}}}}
"""


def refused(tmp_path: Path, *, ami: str = "AL2023_x86_64_NVIDIA", existing: bool = False, **given: str) -> str:
    """The sentence with which a launch on the day of the table is refused; empty if it is not."""
    for name, text in (("cluster", ROOT), ("nodes", NODES)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "main.tf").write_text(text)
    (tmp_path / "blueprint.yaml").write_text(BLUEPRINT.format(ami=ami))
    blueprint = load_blueprint(tmp_path)
    try:
        require_together(blueprint, bind(blueprint, given, existing_cluster=existing), MATRIX.as_of)
    except ParameterError as error:
        return error.sentence()
    return ""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"eks_version": "1.30"}, "ended its support of Kubernetes 1.30 on 2026-07-23. Set eks_version to 1.36."),
        ({"eks_version": "1.24"}, "EKS has ended its support of Kubernetes 1.24. Set"),
        ({"ami": "AL2023_x86_64_NEURON"}, "AL2023_x86_64_NEURON has no driver for the H100 of p5.48xlarge"),
        ({"ami": "AL2_x86_64_GPU"}, "AL2_x86_64_GPU has no image for Kubernetes 1.36; the last is for 1.32"),
        ({"instance_type": "g5.xlarge"}, "g5.xlarge has no EFA interface"),
    ],
)
def test_choices_that_exclude_each_other_are_refused_with_the_remedy(
    tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    assert words in refused(tmp_path, **given)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"eks_version": "1.33"},
        {"eks_version": "1.41"},
        {"instance_type": "p5en.48xlarge"},
        {"eks_version": "1.24", "existing": True},
    ],
)
def test_what_works_together_and_what_is_newer_than_the_table_is_not_refused(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    assert refused(tmp_path, **given) == ""


def test_a_chart_that_is_too_old_for_a_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads(asset("versions/eks.json").read_text())
    document["components"][0] |= {"chart": "1.2.1", "kubernetes_max": "1.32"}
    efa = next(item for item in document["components"] if item["name"] == "efa_plugin")
    efa["instance_types"].remove("p5en.48xlarge")
    (tmp_path / "eks.json").write_text(json.dumps(document))
    old = VersionMatrix.load(tmp_path / "eks.json")
    monkeypatch.setattr(VersionMatrix, "load", classmethod(lambda _: old))
    (tmp_path / "a").mkdir()
    assert "Karpenter 1.2.1 is made for Kubernetes from 1.26 to 1.32, not 1.36." in refused(tmp_path / "a")
    (tmp_path / "b").mkdir()
    said = refused(tmp_path / "b", eks_version="1.32", instance_type="p5en.48xlarge")
    assert "does not run on p5en.48xlarge: its nodes would offer no vpc.amazonaws.com/efa" in said


def test_extended_support_is_told_with_what_has_standard_support() -> None:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    (note,) = choice_notes(blueprint, bind(blueprint, {"eks_version": "1.33"}), date(2026, 11, 22))
    assert note.startswith("Kubernetes 1.33 is in extended support since 2026-07-29, until 2027-07-29")
    assert "1.35 has standard support until 2027-03-27" in note
    assert choice_notes(blueprint, bind(blueprint, {}), date(2026, 11, 22)) == ()
    assert choice_notes(blueprint, bind(blueprint, {}, existing_cluster=True), date(2028, 1, 1)) == ()


@pytest.mark.parametrize(
    ("version", "day", "expected"),
    [
        ("1.36", date(2026, 11, 22), "STANDARD"),
        ("1.33", date(2026, 11, 22), "EXTENDED"),
        ("1.33", date(2026, 7, 28), "STANDARD"),
        ("1.99", date(2026, 11, 22), "STANDARD"),
    ],
)
def test_a_version_in_extended_support_can_only_stay_there(version: str, day: date, expected: str) -> None:
    blueprint = load_blueprint(shipped_blueprints() / "efa-nccl-tests")
    parameter = blueprint.parameters["eks_version"]
    offered = replace(parameter, choices=(*parameter.choices, "1.99"))
    blueprint = replace(blueprint, parameters={**blueprint.parameters, "eks_version": offered})
    assert support_type(bind(blueprint, {"eks_version": version}), day) == expected
