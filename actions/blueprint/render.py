"""Rendering: the objects and Terraform variables of one stage, with the run's values in place and its labels on."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from actions.base.errors import BlueprintError, ConfigError
from actions.base.own_images import BUSYBOX, PUBLIC_REGISTRY, own_image
from actions.blueprint.model import Blueprint, SecretKind, SecretObject
from actions.blueprint.operators import operator_manifests, without_those_of
from actions.blueprint.parameters import Binding, fill, makes_cluster, skipped_stages
from actions.blueprint.parts import FieldTarget, OutputTarget, Scalar
from actions.blueprint.source_files import empty_variables, read_manifests, variables_of
from actions.blueprint.stages import AnyStage, JobStage, ManifestsStage, TerraformStage
from actions.blueprint.targets import Manifest, containers_of, find, target_value, templates_of
from actions.cluster.auth.kubeconfig import ClusterTarget, load_context
from actions.cluster.kinds import is_namespaced

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "eksml-tui"
RUN_LABEL = "eksml.dev/run"
STAGE_LABEL = "eksml.dev/stage"
STORED_RUN_LABEL = "eksml.dev/stored-run"
"""On each object in which a run is stored: the run's id. The audit searches by the label of runs alone."""
RUN_TAG = "eksml-run"

Outputs = Mapping[str, Mapping[str, str]]
"""By stage, by output."""


def labels_of(run_id: str, stage_id: str) -> dict[str, str]:
    """The labels by which everything that a run applies is found again."""
    return {MANAGED_BY: MANAGER, RUN_LABEL: run_id, STAGE_LABEL: stage_id}


def namespace_of(blueprint: Blueprint, binding: Binding, target: ClusterTarget | None = None) -> str:
    """The namespace of a run's namespaced objects.

    That of the target, else of a parameter `namespace` that the operator has set, else of the target's context if the
    run does not make its own cluster, else the blueprint's own.
    """
    own = binding.text("namespace", blueprint.cluster.namespace)
    if target is None or target.namespace or "namespace" in binding.chosen or makes_cluster(blueprint, binding):
        return (target.namespace if target else "") or own
    with suppress(ConfigError):  # a cluster that cannot be reached is a check of its own
        return load_context(target).namespace or own
    return own


def namespace_note(blueprint: Blueprint, binding: Binding, target: ClusterTarget) -> str:
    """Return a sentence on the namespace of a launch into a cluster that is there; empty for one that makes its own."""
    if makes_cluster(blueprint, binding):
        return ""
    return f"The run's objects go into the namespace {namespace_of(blueprint, binding, target)}."


def stage_manifests(
    blueprint: Blueprint,
    stage_id: str,
    binding: Binding,
    *,
    run_id: str,
    outputs: Outputs,
    namespace: str = "",
    mirrors: Sequence[Path] = (),
) -> list[Manifest]:
    """The objects of a stage, ready to apply; empty for a stage without any. Secrets are in `secrets_of`.

    Args:
        blueprint: As loaded.
        stage_id: One of its stages.
        binding: The run's values.
        run_id: Goes into the labels.
        outputs: What earlier stages reported.
        namespace: For namespaced objects that name none. Empty: the blueprint's.
        mirrors: Folders searched for operator manifests before the usual ones.

    Raises:
        BlueprintError: A target matches nothing, an output is missing, a manifest cannot be read.
        MissingError: No such stage, or an operator is in no mirror.
    """
    stage = blueprint.stage(stage_id)
    objects = own_objects(blueprint, stage, binding, outputs)
    if isinstance(stage, ManifestsStage) and stage.source is not None:
        preset = blueprint.presets.get(binding.preset)
        operator = operator_manifests(stage.source, mirrors, shipped=preset.mirror if preset else "")
        objects = [*without_those_of(operator, objects), *operator]
    labels = labels_of(run_id, stage_id)
    home = namespace or namespace_of(blueprint, binding)
    for manifest in objects:
        _mark(manifest, labels, home)
        _tag(manifest, run_id)
    return objects


def own_objects(blueprint: Blueprint, stage: AnyStage, binding: Binding, outputs: Outputs) -> list[Manifest]:
    """The objects of a stage's own files with all values in place, without labels and without its operator.

    Raises:
        BlueprintError: A target matches nothing, an output is missing, a manifest cannot be read.
    """
    files = {file: [item.value for item in read_manifests(blueprint.folder, file)] for file in stage.files}
    for target, value in _settings(blueprint, binding):
        if target.file in files:
            find(target, files[target.file]).write(target_value(value, target.format))
    for wire in _wires(blueprint, stage, binding):
        if wire.file in files:
            value = _output(stage, wire.source, outputs)
            find(wire, files[wire.file]).write(target_value(value, wire.format))
    made = [item for objects in files.values() for item in objects]
    if isinstance(stage, ManifestsStage | JobStage):
        variables = {name: fill(text, binding.everything) for name, text in stage.environment.items()}
        for container in (each for item in made for each in containers_of(item) if variables):
            _set_variables(container, variables)
    return made


def _set_variables(container: dict[str, Any], variables: Mapping[str, str]) -> None:
    kept = [each for each in container.get("env") or () if each.get("name") not in variables]
    container["env"] = [*({"name": name, "value": text} for name, text in variables.items()), *kept]


def tfvars_of(
    blueprint: Blueprint,
    stage_id: str,
    binding: Binding,
    *,
    run_id: str,
    outputs: Outputs,
    circumstances: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Scalar]:
    """The variables of a terraform stage's root: only those that it declares.

    Args:
        blueprint: As loaded.
        stage_id: One of its stages.
        binding: The run's values.
        run_id: For a root that takes it.
        outputs: What earlier stages reported.
        circumstances: Of this run and machine, by variable: for those that the root declares with an empty default.

    Raises:
        BlueprintError: An output of an earlier stage is missing, or the root cannot be read.
        MissingError: No such stage.
    """
    stage = blueprint.under(binding.preset).stage(stage_id)
    if not isinstance(stage, TerraformStage):
        return {}
    declared = variables_of(blueprint.folder, stage.root)
    empty = empty_variables(blueprint.folder, stage.root)
    answers: dict[str, Scalar] = {name: value for name, value in circumstances.items() if name in empty}
    if "run_id" in stage.variables:
        answers["run_id"] = run_id
    for target, value in _settings(blueprint, binding):
        if target.tfvar and target.stage in ("", stage_id):
            answers[target.tfvar] = target_value(value, target.format)
    answers |= stage.values
    for wire in _wires(blueprint, stage, binding):
        if wire.tfvar:
            answers[wire.tfvar] = target_value(_output(stage, wire.source, outputs), wire.format)
    return {name: value for name, value in answers.items() if name in declared}


def placeholders_of(stage: AnyStage) -> dict[str, dict[str, str]]:
    """Return a text for each output of earlier stages that a stage takes, to look at it before anything has run."""
    unknown: dict[str, dict[str, str]] = {}
    for wire in stage.sets:
        source, _, name = wire.source.partition(".")
        unknown.setdefault(source, {})[name] = f"‹{wire.source}›"
    return unknown


def secrets_of(
    blueprint: Blueprint,
    stage_id: str,
    binding: Binding,
    *,
    run_id: str,
    resolve: Callable[[str], str],
    namespace: str = "",
) -> list[Manifest]:
    """The Secrets of a stage whose parameter was given. They hold the secrets themselves: apply, and never store.

    Args:
        blueprint: As loaded.
        stage_id: One of its stages.
        binding: The run's values.
        run_id: Goes into the labels.
        resolve: Turns a reference such as `env:NGC_API_KEY` into the secret.
        namespace: Empty: the blueprint's.

    Raises:
        MissingError: No such stage; or whatever `resolve` raises.
    """
    made = []
    for name in blueprint.stage(stage_id).secrets:
        secret = blueprint.secrets[name]
        reference = str(binding.values.get(secret.parameter, ""))
        if reference:
            manifest = _secret(name, secret, resolve(reference))
            _mark(manifest, labels_of(run_id, stage_id), namespace or namespace_of(blueprint, binding))
            made.append(manifest)
    return made


def _secret(name: str, secret: SecretObject, value: str) -> Manifest:
    if secret.kind is SecretKind.OPAQUE:
        kind, key, text = "Opaque", secret.key, value
    else:
        login = base64.b64encode(f"{secret.username}:{value}".encode()).decode()
        entry = {"username": secret.username, "password": value, "auth": login}
        kind, key = "kubernetes.io/dockerconfigjson", ".dockerconfigjson"
        text = json.dumps({"auths": {secret.server: entry}})
    data = {key: base64.b64encode(text.encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind, "data": data}


def _settings(blueprint: Blueprint, binding: Binding) -> Iterator[tuple[FieldTarget, Scalar]]:
    for name, parameter in blueprint.parameters.items():
        for target in parameter.sets:
            yield target, binding.values[name]
    for name, item in blueprint.derived.items():
        for target in item.sets:
            yield target, binding.derived[name]


def _wires(blueprint: Blueprint, stage: AnyStage, binding: Binding) -> Iterator[OutputTarget]:
    """Yield the targets that earlier stages' outputs set; a stage that is left out has none, so its fields stay."""
    skipped = skipped_stages(blueprint, binding)
    yield from (wire for wire in stage.sets if wire.source.partition(".")[0] not in skipped)


def _output(stage: AnyStage, source: str, outputs: Outputs) -> str:
    from_stage, _, name = source.partition(".")
    value = outputs.get(from_stage, {}).get(name)
    if value is None:
        raise BlueprintError(
            f"Stage {stage.id} needs {source}, which has not been reported.", hint=f"Run the stage {from_stage} first."
        )
    return value


def _mark(manifest: Manifest, labels: Mapping[str, str], namespace: str) -> None:
    metadata = manifest["metadata"]
    metadata.setdefault("labels", {}).update(labels)
    if is_namespaced(manifest["apiVersion"], manifest["kind"]):
        metadata.setdefault("namespace", namespace)
    if manifest["kind"] == "CustomResourceDefinition":
        return  # its schema may hold the word `template`, which is not a pod template
    for template in templates_of(manifest):
        template.setdefault("metadata", {}).setdefault("labels", {}).update(labels)
    for container in containers_of(manifest):
        if container.get("image") == f"{PUBLIC_REGISTRY}/{BUSYBOX}":
            container["image"] = own_image(BUSYBOX)  # the program's own: a site may serve it from elsewhere


def _tag(manifest: Manifest, run_id: str) -> None:
    """Tag what AWS makes for these objects, so that it can be found."""
    spec = manifest.get("spec")
    if manifest["kind"] == "EC2NodeClass" and isinstance(spec, dict):
        spec.setdefault("tags", {})[RUN_TAG] = run_id
    elif manifest["kind"] == "StorageClass" and manifest.get("provisioner") == "fsx.csi.aws.com":
        parameters = manifest.setdefault("parameters", {})
        tags = [part for part in str(parameters.get("extraTags", "")).split(",") if part]
        parameters["extraTags"] = ",".join([*tags, f"{RUN_TAG}={run_id}"])
