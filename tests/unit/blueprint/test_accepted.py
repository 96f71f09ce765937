"""Every object that a shipped blueprint applies is accepted strictly: no unknown field, no wrong value.

Custom resources are held against the operators' real definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import cache

import pytest

from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import bind
from actions.blueprint.parts import Scalar
from actions.blueprint.render import own_objects
from actions.blueprint.targets import Manifest
from actions.sandbox.apiserver.storage.resources import builtin_types
from actions.sandbox.apiserver.validation.builtin import object_causes
from actions.sandbox.apiserver.validation.builtin_fields import prune_builtin, wrong_type
from actions.sandbox.apiserver.validation.crd_schema import prune_resource, violations
from tests.support.definitions import recorded_definitions

_RELEASES = (
    "jobset-0.12.0",
    "karpenter-1.14.1",
    "kuberay-1.1.1",
    "kubeflow-trainer-2.3.0",
    "mpi-operator-0.8.0",
    "prometheus-operator-0.93.0-podmonitors",
    "training-operator-1.8.1-pytorchjobs",
    "volcano-1.15.1",
)
_OTHERS = ("kuberay-1.4.2", "mpi-operator-0.6.0", "volcano-1.8.2")
"""Operators of other releases that a launch uses where they are installed already."""
_UNUSUAL: dict[str, tuple[dict[str, Scalar], ...]] = {
    "llama2-trn1-mpi": (
        {"instance_type": "trn1n.32xlarge", "nodes": 1, "image_source": "given"},
        {"nodes": 16, "tensor_parallel": 32, "pipeline_parallel": 8, "data": "sample", "data_dir": "/shared/a/b"},
        {"data": "existing", "tensorboard": False, "precompile": False, "launcher_restarts": 0, "precision": "fp32"},
    ),
    "llama2-trn1-ray": (
        {"instance_type": "trn1n.32xlarge", "nodes": 1, "grad_accum_usteps": 64, "image_source": "build"},
        {"nodes": 16, "grad_accum_usteps": 4, "queue_cpus": 5000, "queue_memory_gib": 10000, "data": "sample"},
        {"switches": "", "precompile": False, "worker_cpus": 8, "head_cpus": 2, "num_layers": 4, "steps_this_run": -1},
    ),
}
_BLUEPRINTS = sorted(folder.name for folder in shipped_blueprints().iterdir() if (folder / "blueprint.yaml").is_file())


@cache
def real_schemas(releases: tuple[str, ...] = _RELEASES) -> dict[tuple[str, str], Manifest]:
    """The schema of every recorded custom resource, by `apiVersion` and kind."""
    found: dict[tuple[str, str], Manifest] = {}
    for release in releases:
        for definition in recorded_definitions(release):
            spec = definition["spec"]
            for version in spec["versions"]:
                key = (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
                found[key] = version["schema"]["openAPIV3Schema"]
    return found


def objects_of(blueprint: Blueprint, preset: str, **given: Scalar) -> list[Manifest]:
    """All objects of all stages with a preset's values, and a text for what earlier stages report."""
    binding = bind(blueprint, given, preset=preset)
    reported: dict[str, dict[str, str]] = {}
    for stage in blueprint.stages:
        for wire in stage.sets:
            source, _, output = wire.source.partition(".")
            reported.setdefault(source, {})[output] = "reported"
    return [item for stage in blueprint.stages for item in own_objects(blueprint, stage, binding, reported)]


def complaints_about(manifest: Manifest) -> list[str]:
    """Return the reasons for which an API server would refuse it."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    for resource in builtin_types():
        if (resource.group, resource.version, resource.kind) == (group, version, manifest["kind"]):
            wrong = wrong_type(resource, manifest)
            causes = [cause.message for cause in object_causes(resource.key, manifest)]
            return [*([] if wrong is None else [wrong.path]), *prune_builtin(resource, manifest), *causes]
    named = (manifest["apiVersion"], manifest["kind"])
    assert named in real_schemas(), f"no schema of {named}"
    return complaints_by(manifest, real_schemas())


def complaints_by(manifest: Manifest, schemas: Mapping[tuple[str, str], Manifest]) -> list[str]:
    """Return the reasons for which these definitions refuse it; nothing if it is of none of their kinds."""
    schema = schemas.get((manifest["apiVersion"], manifest["kind"]))
    if schema is None:
        return []
    wrong_values = [f"{cause.field}: {cause.message}" for cause in violations(manifest, schema)]
    return [*wrong_values, *prune_resource(manifest, schema)]


@pytest.mark.parametrize("name", _BLUEPRINTS)
def test_every_object_is_accepted_under_every_preset(name: str) -> None:
    blueprint = load_blueprint(shipped_blueprints() / name)
    for preset in ("", *blueprint.presets):
        for manifest in objects_of(blueprint, preset):
            assert complaints_about(manifest) == [], f"{manifest['kind']} {manifest['metadata']['name']}"


@pytest.mark.parametrize("name", _UNUSUAL)
def test_every_object_is_accepted_with_unusual_values_and_by_the_newest_operators(name: str) -> None:
    blueprint = load_blueprint(shipped_blueprints() / name)
    for preset in ("", *blueprint.presets):
        for given in ({}, *_UNUSUAL[name]):
            for manifest in objects_of(blueprint, preset, **given):
                newest = complaints_by(deepcopy(manifest), real_schemas(_OTHERS))
                assert (newest, complaints_about(manifest)) == ([], []), f"{given}: {manifest['kind']}"
