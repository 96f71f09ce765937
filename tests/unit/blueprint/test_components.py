"""Components: pieces of a blueprint that it takes by name, merged by key."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from actions.base.errors import BlueprintError
from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import Catalogue, load_blueprint, validate
from actions.blueprint.checks import AnyCheck
from actions.blueprint.model import Blueprint
from actions.blueprint.source_files import SECTIONS, shared_by
from actions.blueprint.stages import CheckStage, KubeconfigStage
from tests.unit.blueprint.renderings import blueprint_ids

HEAD = """\
schema: eksml/v1
id: small
title: Small
summary: Looks at a cluster.
cluster: {name: small, region: us-west-2}
uses: [access, limits]
"""
OWN = """\
parameters:
  nodes: {default: 3, help: Mine.}
stages:
  - access
  - id: look
    title: My look
    checks: [version, {title: nodes, at_least: "${nodes}"}, {check: version, title: mine, minimum: "1.30"}]
presets:
  short: {title: Short, set: {nodes: 1}}
  long: {set: {nodes: 4}}
"""
ACCESS = """\
checks:
  version: {check: version, minimum: "1.29"}
  nodes: {check: nodes, hint: Wait.}
stages:
  access: {kind: kubeconfig, title: Access, expect: 1s..2s, cluster: small, region: us-west-2}
  look: {kind: check, title: Look, needs: [access], expect: 1s..2s, checks: [version]}
  unused: {kind: check, title: Unused, expect: 1s..2s}
presets:
  long: {title: Long, expect: {access: 3s..4s, unused: 1s..2s}}
"""
LIMITS = """\
parameters:
  nodes: {type: integer, title: Nodes, default: 2, minimum: 1, maximum: 4, help: Theirs.}
rules:
  - {at_most: [nodes, 9], message: Too many.}
"""


def a_system(home: Path, own: str = OWN, **components: str) -> Path:
    """Write a blueprint; its components are in its folder, and in `common` beside it if their name begins with it."""
    folder = home / "small"
    folder.mkdir(parents=True)
    (home / "common").mkdir()
    (folder / "blueprint.yaml").write_text(HEAD + own)
    for name, text in {"access": ACCESS, "common_limits": LIMITS, **components}.items():
        shared, _, rest = name.partition("_")
        (home / shared / f"{rest}.yaml" if rest else folder / f"{name}.yaml").write_text(text)
    return folder


def the_checks(blueprint: Blueprint) -> list[tuple[str, object]]:
    stage = blueprint.stage("look")
    assert isinstance(stage, CheckStage)
    return [(check.title, getattr(check, "minimum", getattr(check, "at_least", ""))) for check in stage.checks]


def test_mappings_are_merged_and_what_stands_later_wins(tmp_path: Path) -> None:
    blueprint = load_blueprint(a_system(tmp_path, OWN))
    nodes = blueprint.parameters["nodes"]
    assert (nodes.title, nodes.default, nodes.maximum, nodes.help) == ("Nodes", 3, 4, "Mine.")
    assert [rule.message for rule in blueprint.rules] == ["Too many."]
    assert blueprint.uses == ("access", "limits")


def test_what_a_blueprint_changes_of_a_component_and_what_a_component_becomes_are_read_anew(tmp_path: Path) -> None:
    folder = a_system(tmp_path)
    assert load_blueprint(folder).parameters["nodes"].default == 3
    (folder / "blueprint.yaml").write_text(HEAD + OWN.replace("nodes: {default: 3, help: Mine.}", "{}"))
    assert load_blueprint(folder).parameters["nodes"].default == 2
    (tmp_path / "common" / "limits.yaml").write_text(LIMITS.replace("default: 2", "default: 1"))
    assert load_blueprint(folder).parameters["nodes"].default == 1


def test_stages_and_checks_are_taken_by_name_in_the_order_of_the_blueprint(tmp_path: Path) -> None:
    blueprint = load_blueprint(a_system(tmp_path, OWN))
    assert [stage.id for stage in blueprint.stages] == ["access", "look"]
    assert isinstance(blueprint.stage("access"), KubeconfigStage)
    assert (blueprint.stage("look").title, blueprint.stage("look").needs) == ("My look", ("access",))
    assert the_checks(blueprint) == [("version", "1.29"), ("nodes", "${nodes}"), ("mine", "1.30")]


def test_a_preset_of_a_component_says_nothing_of_stages_that_are_not_taken(tmp_path: Path) -> None:
    blueprint = load_blueprint(a_system(tmp_path, OWN))
    assert list(blueprint.presets) == ["short", "long"]
    assert list(blueprint.presets["long"].expect) == ["access"]


def test_a_form_shows_what_files_of_the_own_folder_state_if_it_lists_nothing(tmp_path: Path) -> None:
    texts = "".join(f"  text_{number}: {{type: text, title: T, default: a}}\n" for number in range(12))
    of_all = LIMITS + "  - {unlike: [theirs, x], message: No.}\n"
    shared = of_all.replace("rules:", "  theirs: {type: text, title: Theirs, default: a}\nrules:")
    own = OWN
    assert load_blueprint(a_system(tmp_path / "one", own, common_limits=shared)).form == ("nodes",)
    many = a_system(tmp_path / "two", own, common_limits=shared, access=ACCESS + "parameters:\n" + texts)
    assert load_blueprint(many).form == tuple(f"text_{number}" for number in range(10))
    listed = a_system(tmp_path / "three", "form: [theirs]\n" + own, common_limits=shared)
    assert load_blueprint(listed).form == ("theirs",)


def test_a_stage_is_taken_under_another_name_by_uses(tmp_path: Path) -> None:
    again = "  - {id: again, uses: look, checks: [{title: late, uses: version, minimum: '1.31'}]}\npresets:"
    blueprint = load_blueprint(a_system(tmp_path, OWN.replace("presets:", again)))
    stage = blueprint.stage("again")
    assert isinstance(stage, CheckStage)
    assert (stage.title, [check.title for check in stage.checks]) == ("Look", ["late"])


def mistake(name: str, place: str, words: str, own: str = OWN, **components: str) -> Any:
    """A case of the test below: with no words nothing is wrong."""
    return pytest.param(own, components, place, words, id=name)


CHECKED = OWN + "checks:\n  spare: {CHECK}\n"
"""With a check of its own that no stage takes."""
MISTAKES = [
    mistake(
        "a value",
        "blueprint.yaml:16:16",
        "nodes is 8; it must be a whole number from 1 to 4",
        OWN.replace("nodes: 4", "nodes: 8"),
    ),
    mistake(
        "a key",
        "common/limits.yaml:2:26",
        "unknown key 'titel' (used by HOME/small/blueprint.yaml:6).",
        common_limits=LIMITS.replace("title: Nodes", "titel: Nodes"),
    ),
    mistake(
        "a reference",
        "small/access.yaml:6:44",
        "look needs 'acces', which is not a stage (used by HOME/small/blueprint.yaml:6).",
        access=ACCESS.replace("needs: [access]", "needs: [acces]"),
    ),
    mistake(
        "nothing: the list is replaced",
        "small/blueprint.yaml:13",
        "",
        access=ACCESS.replace("checks: [version]", "checks: [verison]"),
    ),
    mistake("no YAML", "small/access.yaml:2:1", "not valid YAML", access="stages: [\n"),
    mistake("a list", "small/access.yaml:1:1", "a component is a mapping", access="- a\n"),
    mistake("uses", "small/access.yaml:1:1", "a component has no key 'uses'", access="uses: [b]\n"),
    mistake("its stages", "access.yaml:1:1", "stages of a component must be a mapping", access="stages: []\n"),
    mistake(
        "a stage of it",
        "small/access.yaml:2:3",
        "stages.look must be a mapping, not 3 (used by HOME/small/blueprint.yaml:6).",
        access="stages:\n  look: 3\n",
    ),
    mistake(
        "a check of it", "small/access.yaml:1:10", "checks.version must be a mapping", access="checks: {version: [a]}\n"
    ),
    mistake(
        "a stage",
        "small/blueprint.yaml:10:5",
        "no component that is used has a stage 'acess'. Did you mean access?",
        OWN.replace("- access", "- acess"),
    ),
    mistake("a check", "blueprint.yaml:13:14", "has a check 'verison'", OWN.replace("[version,", "[verison,")),
    mistake(
        "uses of a stage",
        "blueprint.yaml:10:18",
        "uses is the name of one stage, not ['a']",
        OWN.replace("- access", "- {id: access, uses: [a]}"),
    ),
    mistake(
        "uses of a check",
        "blueprint.yaml:13:38",
        "uses is the name of one check, not 1",
        OWN.replace("{title: nodes,", "{title: nodes, uses: 1,"),
    ),
    mistake("checks", "blueprint.yaml:17:1", "checks must be a mapping", OWN + "checks: 3\n"),
    mistake("a list of checks", "blueprint.yaml:17:1", "checks must be a mapping", OWN + "checks: [a]\n"),
    mistake(
        "no check", "blueprint.yaml:17:10", "checks.version must be a mapping, not 1", OWN + "checks: {version: 1}\n"
    ),
    mistake("an unused check", "blueprint.yaml:18:11", "Did you mean nodes", CHECKED.replace("CHECK", "check: nods")),
    mistake(
        "a key of an unused check",
        "blueprint.yaml:18:25",
        "unknown key 'foo'",
        CHECKED.replace("CHECK", "check: nodes, foo: bar"),
    ),
    mistake("an unused check that lacks keys", "", "", CHECKED.replace("CHECK", "check: pods, at_least: 2")),
    mistake(
        "a check of a component that is unused",
        "small/access.yaml:3:25",
        "unknown key 'hnt' (used by HOME/small/blueprint.yaml:6)",
        access=ACCESS.replace("hint: Wait", "hnt: Wait"),
    ),
]


@pytest.mark.parametrize(("own", "components", "place", "words"), MISTAKES)
def test_a_mistake_is_named_where_it_stands_with_who_uses_it(
    own: str, components: dict[str, str], place: str, words: str, tmp_path: Path
) -> None:
    told = [error.sentence() for error in validate(a_system(tmp_path, own, **components))]
    assert bool(told) == bool(words)
    assert all(place in text and words.replace("HOME", str(tmp_path)) in text for text in told[:1]), told


@pytest.mark.parametrize(
    ("uses", "words"),
    [
        ("[other]", "there is no component 'other'"),
        ("[blueprint]", "'blueprint' is not the name of a component"),
        ("[../small/access]", "is not the name of a component"),
        ("[[access]]", "is not the name of a component"),
        ("[access, access]", "the component access is named twice"),
        ("access", "uses must be a list"),
    ],
)
def test_a_name_that_is_none_is_refused(tmp_path: Path, uses: str, words: str) -> None:
    folder = a_system(tmp_path)
    path = folder / "blueprint.yaml"
    path.write_text(path.read_text().replace("[access, limits]", uses))
    with pytest.raises(BlueprintError, match=words):
        load_blueprint(folder)


@pytest.mark.parametrize(
    "own",
    [
        "stages: [1, null, [a], {id: [a]}, {id: 1}, {uses: 1}, {uses: [a], id: b}]\n",
        "stages: [access, {id: look, checks: [1, null, [a], {title: [a]}, {uses: {}}]}]\npresets: [a]\n",
        "stages: [access]\npresets: {long: 1, 2: {expect: [a], roots: 3}}\nchecks: [a]\nparameters: null\n",
        "stages: {access: 1}\nrules: {a: b}\nchecks: {version: 1}\nparameters: {nodes: 1}\n",
        "checks: {version: 1}\nstages: [access, {id: look, checks: [version]}]\n",
    ],
)
def test_any_shape_is_a_sentence(tmp_path: Path, own: str) -> None:
    assert validate(a_system(tmp_path, own)) != []


def test_a_component_of_the_blueprints_folder_precedes_the_shared_one_and_that_of_the_program(tmp_path: Path) -> None:
    folder = a_system(tmp_path, OWN)
    assert shared_by(load_blueprint(folder)) == {"common/limits.yaml": tmp_path / "common" / "limits.yaml"}
    (folder / "limits.yaml").write_text(LIMITS.replace("Too many", "Mine"))
    mine = load_blueprint(folder)
    assert (mine.rules[0].message, shared_by(mine)) == ("Mine.", {})


def test_a_folder_of_components_is_no_blueprint(tmp_path: Path) -> None:
    a_system(tmp_path, OWN)
    found, broken = Catalogue([tmp_path]).read()
    assert ([blueprint.id for blueprint in found], broken) == (["small"], ())


@pytest.mark.parametrize("name", blueprint_ids())
def test_a_copy_with_what_it_shares_is_the_same_blueprint(name: str, tmp_path: Path) -> None:
    """As a run keeps it: nothing beside the copy is read, not even the components of the program."""
    blueprint = load_blueprint(shipped_blueprints() / name)
    copy = tmp_path / "run" / "blueprint"
    shutil.copytree(blueprint.folder, copy)
    for place, path in shared_by(blueprint).items():
        (copy / place).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if path.is_dir() else shutil.copy)(path, copy / place)
    for component in copy.glob("common/*.yaml"):
        component.write_text(component.read_text().replace("help: Writes", "help: Kept. Writes"))
    kept = load_blueprint(copy)
    assert "Kept. " in repr(kept)
    assert repr(kept).replace("Kept. ", "").replace(str(copy), "") == repr(blueprint).replace(str(blueprint.folder), "")


def test_everything_in_the_components_of_the_program_is_used() -> None:
    used: set[tuple[str, str]] = set()
    for name in blueprint_ids():
        text = yaml.safe_load((shipped_blueprints() / name / "blueprint.yaml").read_text("utf-8"))
        used |= {("", one) for one in text["uses"]}
        for stage in text["stages"]:
            named = stage if isinstance(stage, str) else stage.get("uses", stage["id"])
            used.add(("stages", named))
        used |= {("checks", check.title) for check in _all_checks(load_blueprint(shipped_blueprints() / name))}
    for path in (shipped_blueprints() / "common").glob("*.yaml"):
        component = yaml.safe_load(path.read_text("utf-8"))
        if path.stem == "neuron-releases":
            continue
        assert set(component) <= set(SECTIONS)
        assert ("", path.stem) in used
        assert {(section, name) for section in ("stages", "checks") for name in component.get(section, ())} <= used


def _all_checks(blueprint: Blueprint) -> list[AnyCheck]:
    found: list[AnyCheck] = []
    for stage in blueprint.stages:
        found += [*getattr(stage, "checks", ()), *getattr(stage, "quotas", ())]
    return found
