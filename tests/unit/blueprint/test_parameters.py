"""Binding: types, bounds, presets, rules, secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.base.errors import MissingError, ParameterError
from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.launch_plan import plan_of
from actions.blueprint.model import Choice, Derived, Lookup, Parameter, ParameterRule, ParameterType
from actions.blueprint.parameters import bind, broken_rules, derive, read_value
from actions.blueprint.parts import Scalar
from actions.fleet.instance_types import InstanceTable
from actions.fleet.prices import PriceBook
from tests.unit.blueprint.builders import a_blueprint

A_NUMBER = Parameter(type=ParameterType.INTEGER, title="N", default=1, minimum=1, maximum=64)


def test_defaults_preset_and_choice_come_in_this_order(tmp_path: Path) -> None:
    blueprint = load_blueprint(a_blueprint(tmp_path / "b"))

    assert bind(blueprint, {}).values["workers"] == 2
    assert bind(blueprint, {}, preset="quick").values["workers"] == 1
    assert bind(blueprint, {"workers": "3"}, preset="quick").values["workers"] == 3
    assert bind(blueprint, {"workers": "3"}).derived == {"gpus": 4, "last": 2}
    assert bind(blueprint, {"workers": "3"}).chosen == ("workers",)


def test_an_unknown_parameter_names_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="no parameter 'wrokers'") as caught:
        bind(load_blueprint(a_blueprint(tmp_path / "b")), {"wrokers": 1})
    assert "workers" in caught.value.hint


def test_an_unknown_preset_names_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(MissingError) as caught:
        bind(load_blueprint(a_blueprint(tmp_path / "b")), {}, preset="slow")
    assert "quick" in caught.value.hint


@pytest.mark.parametrize("value", [0, 65, "0", "sixty", "8.5", 8.5, True, "", "nan", "1e3", float("inf")])
def test_a_value_out_of_bounds_is_one_sentence_with_the_bounds(value: Scalar) -> None:
    with pytest.raises(ParameterError, match=r"workers is .*; it must be a whole number from 1 to 64"):
        read_value("workers", A_NUMBER, value)


@pytest.mark.parametrize("value", [8, "8", 8.0])
def test_a_value_is_read_as_its_type(value: Scalar) -> None:
    read = read_value("workers", A_NUMBER, value)
    assert read == 8
    assert isinstance(read, int)


def test_a_text_of_another_form_is_explained_by_the_parameters_help() -> None:
    zone = Parameter(
        type=ParameterType.TEXT, title="Zone", default="auto", pattern="auto|z-[0-9]", help="z-1, or auto."
    )
    with pytest.raises(ParameterError) as caught:
        read_value("zone", zone, "xx")
    assert caught.value.hint == "z-1, or auto."


def test_a_broken_rule_fills_its_sentence(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="5 workers want more than 4 GPUs"):
        bind(load_blueprint(a_blueprint(tmp_path / "b")), {"workers": 5})


def test_a_type_that_the_table_does_not_list_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="does not list"):
        bind(load_blueprint(a_blueprint(tmp_path / "b")), {"instance_type": "g5.tiny"})


def test_a_secret_is_a_reference_and_never_repeated(tmp_path: Path) -> None:
    blueprint = load_blueprint(a_blueprint(tmp_path / "b"))

    assert bind(blueprint, {"token": "env:TOKEN"}).values["token"] == "env:TOKEN"
    with pytest.raises(ParameterError) as caught:
        bind(blueprint, {"token": "hunter2"})
    assert "hunter2" not in caught.value.sentence()


@pytest.mark.parametrize(
    ("given_values", "said"),
    [
        ({"gpus_per_worker": 8, "workers": 1}, "g5.12xlarge has 4"),
        ({"worker_memory_gib": 700, "instance_type": "g5.8xlarge"}, "g5.8xlarge leaves about 112 GiB"),
        ({"data_memory_gib": 24}, "m5.xlarge leaves about 14 GiB"),
        ({"max_steps": 100}, "val_check_interval is 500, more than the 100 steps"),
        ({"tensor_parallel": 4, "workers": 6}, "does not divide the 6 processes"),
        ({"fsx_capacity_gib": 3600}, "one of 1200, 2400"),
        ({"image_tag": "2.0"}, "image_tag"),
        ({"cluster_name": "Bio"}, "cluster_name"),
        ({"experiment_dir": "/fsx/$(touch x)"}, "experiment_dir"),
    ],
)
def test_bionemo_refuses_what_cannot_work(given_values: dict[str, Scalar], said: str) -> None:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    with pytest.raises(ParameterError) as caught:
        bind(blueprint, given_values)
    assert said in caught.value.sentence()


@given(st.one_of(st.text(max_size=30), st.integers(), st.floats(), st.booleans()), st.sampled_from(ParameterType))
def test_any_value_is_read_or_refused_with_a_sentence(value: Scalar, kind: ParameterType) -> None:
    said = ""
    try:
        read_value("p", Parameter(type=kind, title="P", default=""), value)
    except ParameterError as error:
        said = error.sentence()

    assert "\n" not in said


@pytest.mark.parametrize(("instance_type", "said", "wanted"), [("g5.8xlarge", "auto", 0), ("p5.48xlarge", "auto", 1)])
def test_a_choice_follows_the_instance_type_unless_another_one_is_given(
    instance_type: str, said: str, wanted: int
) -> None:
    instances = InstanceTable.load()
    by_type = Derived(title="", lookup=Lookup(instance="instance_type", column="efa_rdma"))
    chosen = Derived(title="", choose=Choice(by="rdma", among={"auto": "by_type", "off": 0, "on": 1}))
    derived = {"by_type": by_type, "rdma_used": chosen}
    assert derive(derived, {"instance_type": instance_type, "rdma": said}, instances)["rdma_used"] == wanted
    assert derive(derived, {"instance_type": instance_type, "rdma": "on"}, instances)["rdma_used"] == 1
    with pytest.raises(ParameterError, match="rdma is 'maybe'"):
        derive(derived, {"instance_type": instance_type, "rdma": "maybe"}, instances)


@pytest.mark.parametrize(("flag", "wanted"), [("true", "--on"), ("false", "workers")])
def test_a_word_is_chosen_as_it_stands(flag: str, wanted: str) -> None:
    chosen = Derived(title="", choose=Choice(by="flag", texts={"true": "--on"}, otherwise="workers"))
    assert derive({"x": chosen}, {"flag": flag, "workers": 3}, InstanceTable.load()) == {"x": wanted}


@pytest.mark.parametrize(
    ("item", "value"),
    [
        (Derived(title="", floor_div=("a", "b")), 3),
        (Derived(title="", ceil_div=("a", "b")), 4),
        (Derived(title="", smallest=("a", "b", 1)), 1),
        (Derived(title="", largest=("b", "a")), 7),
    ],
)
def test_a_value_is_derived_by_its_operation(item: Derived, value: int) -> None:
    assert derive({"x": item}, {"a": 7, "b": 2}, InstanceTable.load()) == {"x": value}


@pytest.mark.parametrize("item", [Derived(title="", floor_div=("a", "b")), Derived(title="", ceil_div=("a", "b"))])
def test_nothing_is_divided_by_zero(item: Derived) -> None:
    with pytest.raises(ParameterError, match="x cannot be computed: b is 0"):
        derive({"x": item}, {"a": 7, "b": 0}, InstanceTable.load())


@pytest.mark.parametrize(("image", "complaints"), [("a/b", 1), ("a/b:1", 1), ("a/bc", 0), ("x/a/b", 0)])
def test_a_value_that_must_not_match_a_pattern_is_held_against_all_of_it(image: str, complaints: int) -> None:
    rule = ParameterRule(message="not ${image}", unlike=("image", "a/b(:.*)?"))
    assert len(broken_rules((rule,), {"image": image})) == complaints


@pytest.mark.parametrize(
    ("given_values", "nodes"),
    [
        ({}, 2),
        ({"gpus_per_worker": 3}, 8),
        ({"worker_memory_gib": 100}, 8),
        ({"workers": 7, "gpus_per_worker": 2}, 4),
        ({"instance_type": "g5.48xlarge"}, 1),
        ({"instance_type": "g5.48xlarge", "worker_memory_gib": 300}, 4),
    ],
)
def test_the_quota_is_asked_for_as_many_nodes_as_the_plan_counts(given_values: dict[str, Scalar], nodes: int) -> None:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    binding = bind(blueprint, given_values)
    assert binding.derived["nodes"] == nodes
    train = next(stage for stage in plan_of(blueprint, binding, PriceBook({})).stages if stage.id == "train")
    assert dict(train.nodes)[binding.text("instance_type")] == nodes
