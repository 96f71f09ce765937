"""The releases of operators that blueprints pin: making one file of several, finding it, and what a stage applies.

A folder holds `NAME/VERSION/manifest.yaml` with its `manifest.yaml.sha256`. Some releases are not a single file but a
kustomization of several. Its files are then taken one by one, each with its own SHA-256, and what the kustomization
would do to them is written out in the blueprint: a namespace, images, single fields. No kubectl and no helm is needed.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from actions.base.errors import BlueprintError, MissingError
from actions.base.files import asset, config_folder, state_folder
from actions.base.yamldoc import read_input
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import Binding, skipped_stages
from actions.blueprint.parts import FieldTarget
from actions.blueprint.source_files import parse_manifests
from actions.blueprint.stages import ManifestsStage, Source
from actions.blueprint.targets import Manifest, containers_of, pod_specs_of, write_into
from actions.cluster.kinds import is_namespaced

MANIFEST_FILE = "manifest.yaml"
SUM_FILE = "manifest.yaml.sha256"
_UNPREFIXED = ("CustomResourceDefinition", "Namespace")
MAX_BYTES = 16 << 20
"""Of a release. KubeRay 1.1.1 has 2.7 MB and training-operator 1.8.1 3.3 MB, nearly all of it schemas."""


def cache_folder() -> Path:
    """Return the folder of what launches have fetched; it may not exist yet."""
    return state_folder() / "operators"


def mirror_folder() -> Path:
    """Return the folder that people fill, by `eksml-tui mirror` or by hand; it may not exist yet."""
    return config_folder() / "mirror"


def operators_path(folder: Path) -> Path:
    """Return the folder of the releases that a run was launched with, in the run's own folder."""
    return folder / "operators"


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of `data`, in hex."""
    return hashlib.sha256(data).hexdigest()


def address_of(source: Source, file: str) -> str:
    """Return the address of one of the files of a release."""
    return f"{source.url.rstrip('/')}/{file}"


def needed_operators(blueprint: Blueprint, binding: Binding) -> Iterator[Source]:
    """The releases that a run will apply and does not bring itself, as the embedded cluster's own are brought.

    Args:
        blueprint: With its preset applied.
        binding: The values of its parameters.
    """
    preset = blueprint.presets.get(binding.preset)
    skipped = skipped_stages(blueprint, binding)
    for stage in blueprint.stages:
        if isinstance(stage, ManifestsStage) and stage.source is not None and stage.id not in skipped:
            is_brought = preset and preset.mirror and _path(asset(preset.mirror), stage.source).is_file()
            if not is_brought:
                yield stage.source


def manifest_path(source: Source, mirrors: Sequence[Path] = (), *, shipped: str = "") -> Path | None:
    """Return the first file of a release, in the order of trust of `operator_manifests`; `None` without one."""
    folders = [*mirrors, *([asset(shipped)] if shipped else []), mirror_folder(), cache_folder()]
    return next((path for folder in folders if (path := _path(folder, source)).is_file()), None)


def operator_manifests(source: Source, mirrors: Sequence[Path], *, shipped: str = "") -> list[Manifest]:
    """The objects of an operator at its pinned version.

    Args:
        source: Which operator.
        mirrors: Folders that are searched first, as a run's own.
        shipped: Asset folder that a rehearsal takes before the operator's mirror and what was fetched; empty for none.

    Raises:
        MissingError: No folder has it.
        BlueprintError: Its bytes are not those that were recorded, or are no Kubernetes objects.
    """
    path = manifest_path(source, mirrors, shipped=shipped)
    if path is None:
        place = [*mirrors, mirror_folder()][0] / source.name / source.version
        raise MissingError(
            f"{source.name} {source.version} is not in any mirror.",
            hint=f"Fill one: eksml-tui mirror {source.name}; or put its {MANIFEST_FILE} and {SUM_FILE} into {place}.",
        )
    documents = parse_manifests(checked_bytes(path, source), file=str(path), limit_bytes=MAX_BYTES)
    found = [dict(item.value) for item in documents]
    return [_adapted(each, source) for each in found if _name_of(each) not in source.without]


def checked_bytes(path: Path, source: Source) -> bytes:
    """Return the bytes of a file of a mirror.

    Raises:
        BlueprintError: They are not those of the sum beside it, or there is none.
    """
    data = read_input(path, kind=BlueprintError, limit_bytes=MAX_BYTES)
    recorded = read_input(path.with_name(SUM_FILE), kind=BlueprintError).decode(errors="replace").split()
    found = digest_of(data)
    if found not in recorded[:1]:
        raise BlueprintError(
            f"{source.name} {source.version} is not what was recorded: its sha256 is {found[:12]}….",
            file=str(path),
            hint=f"Fetch it again, or record the new sum in {SUM_FILE}.",
        )
    return data


def without_those_of(operator: Sequence[Manifest], own: Sequence[Manifest]) -> list[Manifest]:
    """Return a stage's own objects but for those that its operator brings too: the operator's win."""
    brought = {_name_of(each) for each in operator}
    return [each for each in own if _name_of(each) not in brought]


def _path(folder: Path, source: Source) -> Path:
    return folder / source.name / source.version / MANIFEST_FILE


def _name_of(manifest: Manifest) -> str:
    return f"{manifest.get('kind')}/{(manifest.get('metadata') or {}).get('name')}"


def _adapted(manifest: Manifest, source: Source) -> Manifest:
    """The manifest with the arguments that the blueprint adds to its containers, each once."""
    if manifest.get("kind") != "Deployment" or not source.arguments:
        return manifest
    adapted = copy.deepcopy(manifest)
    for container in adapted.get("spec", {}).get("template", {}).get("spec", {}).get("containers") or ():
        added = source.arguments.get(container.get("name", ""), ())
        given = container.get("args") or []
        if added:
            container["args"] = [*given, *(argument for argument in added if argument not in given)]
    return adapted


def recipe_of(source: Source) -> str:
    """Return a digest of all that decides what `built_manifest` makes; empty for a release that is a single file."""
    if not source.files:
        return ""
    steps = (tuple(source.files.items()), source.namespace, source.prefix, source.images, source.changes)
    return digest_of(msgspec.json.encode(steps, order="sorted"))


def built_manifest(source: Source, files: Mapping[str, bytes]) -> bytes:
    """Return the one file that a release of several makes: JSON documents, so that nothing depends on quoting.

    Args:
        source: With `files`.
        files: The content of each, verified.

    Raises:
        BlueprintError: A file holds no objects, or a step of the blueprint finds nothing to change.
    """
    objects = [
        dict(document.value)
        for file in source.files
        for document in parse_manifests(files[file], file=file, limit_bytes=MAX_BYTES)
    ]
    for manifest in objects if source.namespace else ():
        _put_into(manifest, source.namespace)
    if source.prefix:
        _rename(objects, source.prefix)
    for image, other in source.images.items():
        _replace_image(source, objects, image, other)
    for change in source.changes:
        target = FieldTarget(file=source.name, kind=change.kind, name=change.name, path=change.path)
        write_into(target, objects, change.value)
    texts = (msgspec.json.format(msgspec.json.encode(manifest), indent=1) for manifest in objects)
    return b"".join(b"---\n" + text + b"\n" for text in texts)


def _put_into(manifest: Manifest, namespace: str) -> None:
    """Set the namespace wherever kustomize's `namespace` sets it, and in the services of webhooks."""
    if manifest["kind"] == "Namespace":
        manifest["metadata"]["name"] = namespace
    if is_namespaced(manifest["apiVersion"], manifest["kind"]):
        manifest["metadata"]["namespace"] = namespace
    for subject in _mappings(manifest.get("subjects")):
        if subject.get("kind") == "ServiceAccount":
            subject["namespace"] = namespace
    for webhook in _mappings(manifest.get("webhooks")):
        service = (webhook.get("clientConfig") or {}).get("service")
        if service:
            service["namespace"] = namespace


def _rename(objects: Sequence[Manifest], prefix: str) -> None:
    """Put the prefix where kustomize's `namePrefix` puts it: before names, and before those that are of the release."""
    names = {_name_of(each) for each in objects if each["kind"] not in _UNPREFIXED}
    for manifest in objects:
        for kind, holder, key in [(manifest["kind"], manifest["metadata"], "name"), *_references(manifest)]:
            if f"{kind}/{holder.get(key)}" in names:
                holder[key] = prefix + holder[key]


def _references(manifest: Manifest) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the places in an object that name another one: its kind, and the mapping and key that have the name."""
    for named in (*_mappings([manifest.get("roleRef")]), *_mappings(manifest.get("subjects"))):
        yield named["kind"], named, "name"
    for webhook in _mappings(manifest.get("webhooks")):
        yield "Service", (webhook.get("clientConfig") or {}).get("service") or {}, "name"
    for spec in pod_specs_of(manifest):
        yield "ServiceAccount", spec, "serviceAccountName"
        for volume in _mappings(spec.get("volumes")):
            yield "Secret", volume.get("secret") or {}, "secretName"
            yield "ConfigMap", volume.get("configMap") or {}, "name"


def _mappings(items: Any) -> list[dict[str, Any]]:
    return [item for item in items or () if isinstance(item, dict)]


def _replace_image(source: Source, objects: Sequence[Manifest], image: str, other: str) -> None:
    using = [each for manifest in objects for each in containers_of(manifest) if each.get("image") == image]
    if not using:
        raise BlueprintError(
            f"No container of {source.name} {source.version} uses the image {image}.",
            hint="Correct images of its source.",
        )
    for container in using:
        container["image"] = other
