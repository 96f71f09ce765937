"""Blueprints of the program, and the objects that they make."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import bind
from actions.blueprint.parts import Scalar
from actions.blueprint.render import stage_manifests


@cache
def shipped(name: str) -> Blueprint:
    """The blueprint of that id."""
    return load_blueprint(shipped_blueprints() / name)


def object_of(
    name: str, stage: str, *kinds: str, given: Mapping[str, Scalar], outputs: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """The one object of a stage that is of one of these kinds, with these parameters and outputs of other stages."""
    blueprint = shipped(name)
    objects = stage_manifests(blueprint, stage, bind(blueprint, given), run_id="r", outputs=outputs)
    (manifest,) = [item for item in objects if item["kind"] in kinds]
    return manifest
