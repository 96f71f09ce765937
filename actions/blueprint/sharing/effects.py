"""The effects of a launch of a blueprint, in sentences: to be read before it is added."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from actions.blueprint.checks import SecretCheck
from actions.blueprint.model import Blueprint
from actions.blueprint.source_files import read_manifests
from actions.blueprint.stages import (
    CheckStage,
    HelmStage,
    ImageStage,
    ManifestsStage,
    NetworkStage,
    Stage,
    TerraformStage,
)
from actions.blueprint.targets import containers_of, pod_specs_of

_SHARES_OF_A_NODE = ("hostNetwork", "hostPID", "hostIPC")


def effects_of(blueprint: Blueprint) -> tuple[str, ...]:
    """Return a line for each thing that its launch makes or runs, each once, in the order of its stages.

    Raises:
        BlueprintError: One of its files cannot be read.
    """
    lines = [line for stage in blueprint.stages for line in _of_stage(blueprint, stage)]
    lines += [
        f"runs the image {parameter.default}"
        for parameter in blueprint.parameters.values()
        for target in parameter.sets
        if target.path.rpartition(".")[2] == "image" and parameter.default
    ]
    lines += [
        f"reads your secret of the parameter {made.parameter}, and puts it into the Secret {name}"
        for name, made in blueprint.secrets.items()
    ]
    if blueprint.results is not None and blueprint.results.export is not None:
        lines.append(f"may copy results to {blueprint.results.export.to}")
    return tuple(dict.fromkeys(lines))


def _of_stage(blueprint: Blueprint, stage: Stage) -> Iterator[str]:
    match stage:
        case TerraformStage():
            roots = {stage.root, *(preset.roots.get(stage.id, stage.root) for preset in blueprint.presets.values())}
            yield from (
                f"applies the Terraform root {root} with your AWS credentials; a root may run programs on this machine"
                for root in sorted(roots)
            )
        case NetworkStage():
            yield "opens a security group to itself"
        case ImageStage() if stage.context:
            yield f"builds {stage.context}/{stage.dockerfile} with docker, and pushes it to {stage.repository}"
        case HelmStage():
            where = f" of {stage.repository}" if stage.repository else ""
            yield f"installs the chart {stage.chart} {stage.version}{where} into {stage.namespace}"
        case CheckStage():
            yield from (f"reads {check.title}" for check in stage.checks if isinstance(check, SecretCheck))
        case ManifestsStage() if stage.source is not None:
            pinned = "pinned by SHA-256" if stage.source.is_pinned else "not pinned"
            yield f"applies {stage.source.name} {stage.source.version} from {stage.source.url or 'a mirror'}, {pinned}"
    if stage.watch is not None and stage.watch.logs is not None and stage.watch.logs.exec:
        yield f"runs {shlex.join(stage.watch.logs.exec)} in its pods"
    for file in stage.files:
        for document in read_manifests(blueprint.folder, file):
            yield from _of_object(document.value)


def _of_object(manifest: dict[str, Any]) -> Iterator[str]:
    """Describe an object: what kind, what its containers run, and what they get of their node."""
    yield f"applies {manifest['kind']} {(manifest.get('metadata') or {}).get('name', '')}".rstrip()
    for container in containers_of(manifest):
        if isinstance(container.get("image"), str):
            yield f"runs the image {container['image']}"
        context = container.get("securityContext")
        if isinstance(context, dict) and context.get("privileged"):
            yield f"runs {container.get('name', 'a container')} privileged"
    for spec in pod_specs_of(manifest):
        yield from (f"uses {name} of its nodes" for name in _SHARES_OF_A_NODE if spec.get(name))
        for volume in spec.get("volumes") or ():
            if isinstance(volume, dict) and isinstance(volume.get("hostPath"), dict):
                yield f"mounts {volume['hostPath'].get('path', '?')} of its nodes"
