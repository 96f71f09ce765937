"""Everything that a blueprint of the program comes to, as short lines: what its presets render, and what it holds.

    python -m tests.unit.blueprint.renderings FOLDER

writes the full texts below FOLDER, to compare two versions with `diff -r`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.launch_plan import plan_json, plan_of
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import Binding, bind, skipped_stages
from actions.blueprint.parts import Expectation
from actions.blueprint.render import labels_of, own_objects, placeholders_of, stage_manifests, tfvars_of
from actions.blueprint.stages import AnyStage, ManifestsStage
from actions.fleet.prices import PriceBook

DAY = date(2026, 9, 18)
"""The day of the plans: support and price of a Kubernetes version follow from it."""
RUN = "run-1"
CIRCUMSTANCES = {"account_id": "111122223333", "namespace": "default", "support_type": "STANDARD"}

_LEFT_OUT = frozenset({"help", "group", "hint", "manifests"})
"""Words for people, and names of files: the objects of the files are rendered."""

Texts = Mapping[str, str]
"""Full texts by name: `train PyTorchJob/nlp-training`."""


def blueprint_ids() -> list[str]:
    """Return the ids of the program's blueprints."""
    return sorted(path.parent.name for path in shipped_blueprints().glob("*/blueprint.yaml"))


def launches_of(blueprint: Blueprint) -> Iterator[tuple[str, Binding]]:
    """Yield each preset with its binding, `default` for none; and both on a cluster that is there."""
    for preset in ("", *blueprint.presets):
        for existing in (False, True):
            name = (preset or "default") + "+existing" * existing
            yield name, bind(blueprint, {}, preset=preset, existing_cluster=existing)


def texts_of(name: str) -> dict[str, Texts]:
    """Return the full texts of a blueprint: those of each launch by its name, and under `blueprint` what it holds."""
    blueprint = load_blueprint(shipped_blueprints() / name)
    found: dict[str, Texts] = {"blueprint": dict(_held(blueprint))}
    for launch, binding in launches_of(blueprint):
        found[launch] = dict(_rendered(blueprint, binding))
    return found


def lines_of(name: str) -> list[str]:
    """Return a line for each different text: what it is, its digest, and the launches that have it."""
    launches: dict[tuple[str, str], list[str]] = {}
    for launch, texts in texts_of(name).items():
        for what, text in texts.items():
            launches.setdefault((what, hashlib.sha256(text.encode()).hexdigest()[:12]), []).append(launch)
    return [f"{what}: {digest} ({', '.join(named)})" for (what, digest), named in launches.items()]


def _held(blueprint: Blueprint) -> Iterator[tuple[str, str]]:
    """Yield what is in no rendered object: bounds, checks, rules, logs, results."""
    built = _plain(msgspec.to_builtins(blueprint, enc_hook=_span))
    for section in ("parameters", "derived", "holdings", "secrets", "presets"):
        for name in sorted(built[section]):
            yield f"{section} {name}", _text(built[section][name])
    for index, rule in enumerate(built["rules"]):
        yield f"rules {index}", _text(rule)
    for stage in built["stages"]:
        yield f"stages {stage['id']}", _text(stage)
    yield "results", _text(built["results"])
    yield "cluster", _text(built["cluster"])
    yield "order of stages", _text([stage.id for stage in blueprint.stages])


def _rendered(blueprint: Blueprint, binding: Binding) -> Iterator[tuple[str, str]]:
    skipped = skipped_stages(blueprint, binding)
    for stage in blueprint.stages:
        if stage.id in skipped:
            continue
        for manifest in _objects(blueprint, stage, binding):
            yield f"{stage.id} {manifest['kind']}/{manifest['metadata']['name']}", _text(manifest)
        outputs = placeholders_of(stage)
        if variables := tfvars_of(
            blueprint, stage.id, binding, run_id=RUN, outputs=outputs, circumstances=CIRCUMSTANCES
        ):
            yield f"{stage.id} tfvars", _text(variables)
    plan = json.loads(plan_json(plan_of(blueprint, binding, PriceBook.load(), day=DAY)))
    for planned in plan.pop("stages"):
        yield f"plan {planned['id']}", _text(planned)
    plan["operators"] = [each["name"] for each in plan["operators"]]  # where their files lie is this machine's
    yield "plan", _text(plan)


def _objects(blueprint: Blueprint, stage: AnyStage, binding: Binding) -> list[dict[str, Any]]:
    """Return the objects of a stage; of an operator only where a file of the program's own has it."""
    outputs = placeholders_of(stage)
    preset = blueprint.presets.get(binding.preset)
    if isinstance(stage, ManifestsStage) and stage.source and not (preset and preset.mirror):
        return [dict(item) | labels_of(RUN, stage.id) for item in own_objects(blueprint, stage, binding, outputs)]
    return [dict(item) for item in stage_manifests(blueprint, stage.id, binding, run_id=RUN, outputs=outputs)]


def _span(value: object) -> object:
    if isinstance(value, Expectation):
        return [value.low_seconds, value.high_seconds]
    return str(value)


def _text(value: object) -> str:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {key: _plain(item) for key, item in value.items() if key not in _LEFT_OUT}
        case list() | tuple():
            return [_plain(item) for item in value]
    return value


def main(folder: Path) -> None:
    """Write all texts below a folder."""
    for name in blueprint_ids():
        for launch, texts in texts_of(name).items():
            for what, text in texts.items():
                path = folder / name / launch / f"{what.replace('/', '_')}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
