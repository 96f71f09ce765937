"""The properties that all blueprints of the program have in common."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from actions.base.clock import SystemClock
from actions.base.files import shipped_blueprints
from actions.blueprint import consistency
from actions.blueprint.checks import NodesCheck, PodsCheck, QuotaCheck
from actions.blueprint.launch_plan import plan_of
from actions.blueprint.parameters import bind, read_value
from actions.blueprint.parts import Scalar
from actions.blueprint.render import tfvars_of
from actions.blueprint.source_files import declarations_of
from actions.blueprint.stages import CheckStage, TerraformStage
from actions.blueprint.targets import argument_text
from actions.fleet.prices import PriceBook
from actions.run.launch import first_record
from actions.run.state.records import ClusterName
from tests.unit.blueprint.shipped import shipped

BLUEPRINTS = sorted(path.parent.name for path in shipped_blueprints().glob("*/blueprint.yaml"))
CLUSTER_ROOT = "common/terraform/cluster"
OWN_CLUSTER = [name for name in BLUEPRINTS if "cluster" in shipped(name).uses]
"""The blueprints that make a cluster of their own, with the shared roots."""


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_the_check_of_a_blueprint_reads_each_terraform_root_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    blueprint = shipped(name)
    roots = {stage.root for stage in blueprint.stages if isinstance(stage, TerraformStage)}
    roots |= {root for preset in blueprint.presets.values() for root in preset.roots.values()}
    read = Mock(side_effect=declarations_of)
    monkeypatch.setattr(consistency, "declarations_of", read)
    assert list(consistency.blueprint_problems(blueprint)) == []
    assert sorted(call.args[1] for call in read.call_args_list) == sorted(roots)


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_a_person_decides_ten_fields_with_preset_cluster_and_budget(name: str) -> None:
    assert len(shipped(name).form) == 7


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_presets_are_possible(name: str) -> None:
    blueprint = shipped(name)
    for preset in ("", *blueprint.presets):
        bound = bind(blueprint, {}, preset=preset)
        assert (bound.preset, set(bound.values), set(bound.derived)) == (
            preset,
            set(blueprint.parameters),
            set(blueprint.derived),
        )


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_every_choice_can_be_chosen_as_it_is_typed(name: str) -> None:
    """A choice of a text parameter that YAML reads as a number is refused, whatever is typed."""
    for key, parameter in shipped(name).parameters.items():
        for choice in parameter.choices:
            assert read_value(key, parameter, argument_text(choice)) == choice


CHOSEN: dict[str, Scalar] = {
    "endpoint_public_access_cidrs": "203.0.113.0/24, 198.51.100.7/32",
    "admins": "arn:aws:iam::111122223333:role/ops",
    "viewers": "arn:aws:iam::111122223333:role/dev,arn:aws:iam::111122223333:user/someone",
    "control_plane_logs": "audit",
    "flow_logs": True,
    "extended_support": True,
    "kms_key_arn": "arn:aws:kms:us-west-2:111122223333:key/0a1b2c3d-0000-1111-2222-333344445555",
}


def test_a_blueprint_with_terraform_makes_its_cluster_with_the_shared_root() -> None:
    with_terraform = [name for name in BLUEPRINTS if any(isinstance(s, TerraformStage) for s in shipped(name).stages)]
    assert with_terraform == OWN_CLUSTER


@pytest.mark.parametrize("name", OWN_CLUSTER)
def test_what_is_advanced_reaches_the_roots(name: str) -> None:
    blueprint = shipped(name)
    more: dict[str, Scalar] = {"disk_throughput": 1000} if "disk_throughput" in blueprint.parameters else {}
    binding = bind(blueprint, CHOSEN | more)
    given: dict[str, dict[str, object]] = {}
    for stage in blueprint.stages:
        if isinstance(stage, TerraformStage):
            unknown: dict[str, dict[str, str]] = {}
            for wire in stage.sets:
                source, _, output = wire.source.partition(".")
                unknown.setdefault(source, {})[output] = ""
            given[stage.root] = dict(tfvars_of(blueprint, stage.id, binding, run_id="run-1", outputs=unknown))
    key = CHOSEN["kms_key_arn"]
    assert {root: variables.get("kms_key_arn") for root, variables in given.items()} == dict.fromkeys(given, key)
    assert CHOSEN.items() - {("flow_logs", True)} <= given[CLUSTER_ROOT].items()
    assert given["common/terraform/network"]["flow_logs"] is True
    nodes = given.get("common/terraform/nodes")
    assert (nodes is None) == (not more)
    assert nodes is None or nodes["disk_throughput_mibps"] == 1000


@pytest.mark.parametrize("name", OWN_CLUSTER)
def test_logs_are_in_the_plan_where_they_cost(name: str) -> None:
    blueprint = shipped(name)
    titles = {
        choice: [item.title for item in plan_of(blueprint, bind(blueprint, chosen), PriceBook.load()).usage]
        for choice, chosen in (("none", dict[str, Scalar]()), ("all", CHOSEN))
    }
    assert set(titles["all"]) - set(titles["none"]) == {"Control plane logs", "VPC flow logs"}


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_what_a_cluster_that_is_there_has_to_offer_is_asked_first(name: str) -> None:
    """Devices, interfaces, huge pages: nothing is built, installed or computed before them."""
    blueprint, cluster = shipped(name), ClusterName("any", "us-west-2", "", "", "default")
    binding = bind(blueprint, {}, existing_cluster=True)
    record = first_record(blueprint, binding, run_id="any", cluster=cluster, clock=SystemClock())
    carried_out = [blueprint.stage(one.id) for one in record.stages if not one.is_skipped]
    asked = [
        stage.id
        for stage in carried_out
        if isinstance(stage, CheckStage) and any(isinstance(one, NodesCheck) and one.resource for one in stage.checks)
    ]
    before = [stage.kind for stage in carried_out[: carried_out.index(blueprint.stage(asked[0]))]] if asked else []
    assert set(before) <= {"kubeconfig", "terraform"}
    assert before.count("terraform") <= 1, "a registry"
    own = first_record(blueprint, bind(blueprint, {}), run_id="any", cluster=cluster, clock=SystemClock())
    assert [one.needs for one in own.stages] == [blueprint.stage(one.id).needs for one in own.stages]


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_pods_of_somebody_elses_plugin_are_not_required_where_their_resources_are_counted(name: str) -> None:
    stages = [stage for stage in shipped(name).stages if isinstance(stage, CheckStage)]
    for stage in (
        stage for stage in stages if any(isinstance(one, NodesCheck) and one.resource for one in stage.checks)
    ):
        plugins = [
            one for one in stage.checks if isinstance(one, PodsCheck) and "plugin" in one.selector + one.namespace
        ]
        assert [one.title for one in plugins if one.is_required and "CSI" not in one.title] == []


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_no_quota_is_asked_for_nodes_that_a_cluster_has_already(name: str) -> None:
    """On an existing cluster only what Karpenter starts comes in addition."""
    blueprint = shipped(name)
    quotas = [
        check
        for stage in blueprint.stages
        if isinstance(stage, CheckStage)
        for check in stage.checks
        if isinstance(check, QuotaCheck)
    ]
    has_pool = any("manifests/pool.yaml" in getattr(stage, "manifests", ()) for stage in blueprint.stages)
    assert bool(quotas) == has_pool
    assert not [check.title for check in quotas if "core" in check.amount]
