"""Choices that cannot work together: Kubernetes version, charts, node images and instance types of a launch.

What the table of versions does not list is newer than it, and is not refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import date

from actions.base.errors import ParameterError
from actions.base.wording import listed
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import Binding, reason_to_skip
from actions.blueprint.parts import Scalar
from actions.blueprint.render import own_objects, placeholders_of, tfvars_of
from actions.blueprint.stages import AnyStage, ManifestsStage, TerraformStage
from actions.blueprint.targets import containers_of
from actions.fleet.eks_versions import Component, EksVersion, Support, VersionMatrix
from actions.fleet.instance_types import InstanceTable

_DEVICES = {"efa_plugin": "vpc.amazonaws.com/efa", "neuron_plugin": "aws.amazon.com/neuron"}
_MOVING = re.compile(r"(^|/)[^/:@‹]+(:(latest|main|master|nightly|edge|stable))?$")
"""An image without a digest whose tag is none, or one that is moved with each release."""
Variables = Mapping[str, Scalar]


def require_together(blueprint: Blueprint, binding: Binding, day: date) -> None:
    """Require that what a launch makes works together. A cluster that is there is not looked at.

    Args:
        blueprint: As it was loaded.
        binding: The values of its parameters.
        day: The day of the launch, UTC: EKS makes no cluster of a version whose support has ended.

    Raises:
        ParameterError: Two choices exclude each other; one sentence with the remedy.
        BlueprintError: A Terraform root cannot be read.
    """
    if _is_rehearsal(blueprint, binding):
        return
    stages = [stage for stage in _stages(blueprint, binding) if isinstance(stage, TerraformStage)]
    roots = [_variables(blueprint, stage, binding) for stage in stages]
    for error in _problems(roots, VersionMatrix.load(), InstanceTable.load(), day):
        raise error


def choice_notes(blueprint: Blueprint, binding: Binding, day: date) -> tuple[str, ...]:
    """Return a sentence for each choice of a launch that can be made and has a price or a risk; none for a rehearsal.

    Extended support, pairs of versions that are not declared, images whose tags move.

    Raises:
        BlueprintError: A manifest or a Terraform root cannot be read.
    """
    if _is_rehearsal(blueprint, binding):
        return ()
    notes = [_moving_note(blueprint, binding)]
    version = "" if binding.existing_cluster else binding.text("eks_version")
    if version:
        matrix, parts = VersionMatrix.load(), _installed(blueprint, binding)
        newest = matrix.newest_in_standard_support(day, parts)
        pairs = [matrix.undeclared(part, version) for part in parts]
        if newest is not None and any(pairs):
            pairs.append(f"With eks_version={newest.version} each of these pairs is declared.")
        notes = [_support_note(version, day, newest), " ".join(filter(None, pairs)), *notes]
    return tuple(note for note in notes if note)


def undeclared_pairs(blueprint: Blueprint, binding: Binding, version: str, there: Collection[str] = ()) -> list[str]:
    """Return a sentence for each part that a launch installs and that is not declared to work with a version.

    Args:
        blueprint: As it was loaded.
        binding: The values of its parameters.
        version: Of Kubernetes, that of the cluster.
        there: Stages whose operator is in the cluster already, in whatever version.

    Raises:
        BlueprintError: A Terraform root cannot be read.
    """
    matrix = VersionMatrix.load()
    found = [matrix.undeclared(part, version) for part in _installed(blueprint, binding, there)]
    return [sentence for sentence in found if sentence]


def _installed(blueprint: Blueprint, binding: Binding, there: Collection[str] = ()) -> list[Component]:
    """The charts and operators of the table that a launch installs, without those of the stages `there`."""
    stages = [stage for stage in _stages(blueprint, binding) if stage.id not in there]
    roots = [_variables(blueprint, stage, binding) for stage in stages if isinstance(stage, TerraformStage)]
    sources = {
        (stage.source.name, stage.source.version)
        for stage in stages
        if isinstance(stage, ManifestsStage) and stage.source is not None
    }
    return [
        component
        for component in VersionMatrix.load().components
        if (component.name, component.app) in sources or any(root.get(component.name) is True for root in roots)
    ]


def _support_note(version: str, day: date, newest: EksVersion | None) -> str:
    entry = VersionMatrix.load().find(version)
    if entry is None or entry.support_on(day) is not Support.EXTENDED:
        return ""
    instead = f" {newest.version} has standard support until {newest.standard_until}." if newest else ""
    return (
        f"Kubernetes {version} is in extended support since {entry.standard_until}, until {entry.extended_until}: "
        f"the control plane costs more.{instead}"
    )


def _moving_note(blueprint: Blueprint, binding: Binding) -> str:
    """Return a sentence on the images whose tags are moved with each release; empty if there are none."""
    images = {
        str(container.get("image") or "")
        for stage in _stages(blueprint, binding)
        for manifest in own_objects(blueprint, stage, binding, placeholders_of(stage))
        for container in containers_of(manifest)
    }
    moving = sorted(image for image in images if _MOVING.search(image))
    if not moving:
        return ""
    return (
        f"{listed(moving, 3)}: the tag moves, so another launch, or another node, may get another image. "
        "With its digest (…@sha256:…) it stands still."
    )


def _is_rehearsal(blueprint: Blueprint, binding: Binding) -> bool:
    preset = blueprint.presets.get(binding.preset)
    return preset is not None and preset.is_cost_simulated


def _stages(blueprint: Blueprint, binding: Binding) -> list[AnyStage]:
    """The stages that are carried out."""
    return [stage for stage in blueprint.under(binding.preset).stages if not reason_to_skip(stage, binding)]


def support_type(binding: Binding, day: date) -> str:
    """Return the upgrade policy that EKS takes for the launch's Kubernetes version, as EKS writes it.

    A version in extended support can only have `EXTENDED`. Any other has `STANDARD`, unless the operator asks to stay.

    Source: Amazon EKS user guide, "Create a cluster": "you can not select standard support as an option".
    """
    version = binding.text("eks_version")
    is_standard = not version or VersionMatrix.load().support_of(version, day) is Support.STANDARD
    return "STANDARD" if is_standard else "EXTENDED"


def _variables(blueprint: Blueprint, stage: AnyStage, binding: Binding) -> Variables:
    """Return the variables of a root before anything has run."""
    return tfvars_of(blueprint, stage.id, binding, run_id="", outputs=placeholders_of(stage))


def _problems(
    roots: list[Variables], matrix: VersionMatrix, instances: InstanceTable, day: date
) -> Iterator[ParameterError]:
    installed = [
        component for component in matrix.components if any(root.get(component.name) is True for root in roots)
    ]
    version = next((str(root["eks_version"]) for root in roots if "eks_version" in root), "")
    if version:
        yield from _of_version(version, installed, matrix, day)
    for root in roots:
        if "ami_type" in root and "instance_type" in root:
            yield from _of_nodes(root, version, installed, matrix, instances)


def _of_version(version: str, installed: list[Component], matrix: VersionMatrix, day: date) -> Iterator[ParameterError]:
    newest = matrix.newest_in_standard_support(day, installed)
    hint = f"Set eks_version to {newest.version}." if newest else "Set eks_version to a newer one."
    entry = matrix.find(version)
    if matrix.support_of(version, day) is Support.ENDED:
        since = f" on {entry.extended_until}" if entry else ""
        yield ParameterError(f"EKS has ended its support of Kubernetes {version}{since}.", hint=hint)
    for component in installed:
        if entry is not None and not component.supports(version):
            bounds = f"from {component.kubernetes_min}" + (
                f" to {component.kubernetes_max}" if component.kubernetes_max else ""
            )
            yield ParameterError(
                f"{component.title} {component.chart} is made for Kubernetes {bounds}, not {version}.", hint=hint
            )


def _of_nodes(
    root: Variables, version: str, installed: list[Component], matrix: VersionMatrix, instances: InstanceTable
) -> Iterator[ParameterError]:
    name, ami = str(root["instance_type"]), matrix.ami_type(str(root["ami_type"]))
    kind = instances.find(name)
    if ami is not None and version and not ami.is_offered(version):
        yield ParameterError(
            f"{ami.name} has no image for Kubernetes {version}; the last is for {ami.kubernetes_max}.",
            hint="Choose an image type that begins with AL2023_.",
        )
    if ami is not None and kind is not None and kind.accelerator.value not in ("", ami.accelerator):
        yield ParameterError(
            f"{ami.name} has no driver for the {kind.accelerator_model} of {name}.",
            hint="Choose another instance_type.",
        )
    if kind is not None and root.get("efa") is True and kind.efa_interfaces == 0:
        yield ParameterError(f"{name} has no EFA interface.", hint="Choose another instance_type.")
    for component in installed:
        is_needed = component.name != "neuron_plugin" or (kind is not None and kind.neuron_devices > 0)
        if component.name == "efa_plugin":
            is_needed = root.get("efa") is True
        if is_needed and component.name in _DEVICES and not component.runs_on(name):
            yield ParameterError(
                f"{component.title} {component.chart} does not run on {name}: its nodes would offer no "
                f"{_DEVICES[component.name]}.",
                hint="Choose another instance_type.",
            )
