"""Rules for the objects that a blueprint names: their names are names, and a way leads into their cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator

from actions.base.errors import BlueprintError
from actions.base.names import is_label, is_segment, is_subdomain
from actions.base.yamldoc import Document
from actions.blueprint.checks import AnyCheck, DiskCheck, FilesCheck, ObjectCheck, PodsCheck
from actions.blueprint.finding import Finding, Where
from actions.blueprint.model import Blueprint
from actions.blueprint.parts import ObjectName
from actions.blueprint.references import ancestors_of
from actions.blueprint.stages import (
    AnyStage,
    CheckStage,
    HelmStage,
    ImageStage,
    JobStage,
    KubeconfigStage,
    ManifestsStage,
    NetworkStage,
    PodStage,
    StorageStage,
    TerraformStage,
)

_API_VERSION = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?(?:/[a-z0-9]{1,63})?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_RBAC = "rbac.authorization.k8s.io/"
"""Objects of this group may be called almost anything: `system:node`."""
_RULE = "Use lower case, digits, - and dots."
_WITHOUT_CLUSTER = (TerraformStage, KubeconfigStage, ImageStage, NetworkStage)
"""Stages that never talk to the API server."""

Named = tuple[Where, str, bool]
"""Where a name stands, the name, and whether it is that of a namespace."""


def naming_findings(blueprint: Blueprint) -> Iterator[Finding]:
    """Every name that is none."""
    if not is_label(blueprint.cluster.namespace):
        yield Finding(("cluster", "namespace"), _no_name(blueprint.cluster.namespace, "namespace"), _RULE)
    for name in blueprint.secrets:
        if not is_subdomain(name):
            yield Finding(("secrets", name), _no_name(name, "Secret"), _RULE)
    if blueprint.results is not None and not is_subdomain(blueprint.results.claim):
        yield Finding(("results", "claim"), _no_name(blueprint.results.claim, "claim"), _RULE)
    for index, stage in enumerate(blueprint.stages):
        where = ("stages", index)
        for at, named in _objects_of(stage):
            yield from _object(where + at, named)
        for at, text, is_namespace in _texts_of(stage):
            if not (is_label(text) if is_namespace else is_subdomain(text)):
                yield Finding(where + at, _no_name(text, "namespace" if is_namespace else "object"), _RULE)


def access_findings(blueprint: Blueprint) -> Iterator[Finding]:
    """Every stage that talks to the cluster without a way into it: launched, it would fail."""
    kinds = {stage.id: stage for stage in blueprint.stages}
    for index, stage in enumerate(blueprint.stages):
        if isinstance(stage, _WITHOUT_CLUSTER):
            continue
        if not any(isinstance(kinds.get(name), KubeconfigStage) for name in ancestors_of(blueprint, stage)):
            message = f"{stage.id} talks to the cluster, and no stage of kind kubeconfig is among those that it needs."
            yield Finding(("stages", index), message, "Add such a stage, or need the one that there is.")


def manifest_error(document: Document) -> BlueprintError | None:
    """Return what is wrong with the names in a manifest; `None` if nothing is."""
    metadata, version = document.value["metadata"], str(document.value["apiVersion"])
    for key in ("name", "namespace"):
        text = metadata.get(key, "default")
        is_right = isinstance(text, str) and (is_label(text) if key == "namespace" else _is_name(text, version))
        if not is_right:
            return document.error(
                BlueprintError, _no_name(str(text), "namespace" if key == "namespace" else "object"),
                "metadata", key, hint=_RULE,
            )  # fmt: skip
    for key, form in (("apiVersion", _API_VERSION), ("kind", _KIND)):
        if form.fullmatch(document.value[key]) is None:
            return document.error(BlueprintError, f"{document.value[key][:60]!r} is no {key}.", key)
    return None


def _object(where: Where, name: ObjectName) -> Iterator[Finding]:
    if _API_VERSION.fullmatch(name.api_version) is None:
        yield Finding((*where, "api_version"), f"{name.api_version[:60]!r} is no API version.", "Write v1 or batch/v1.")
    if _KIND.fullmatch(name.kind) is None:
        yield Finding((*where, "kind"), f"{name.kind[:60]!r} is no kind.")
    if not _is_name(name.name, name.api_version):
        yield Finding((*where, "name"), _no_name(name.name, name.kind[:60] or "object"), _RULE)
    if name.namespace and not is_label(name.namespace):
        yield Finding((*where, "namespace"), _no_name(name.namespace, "namespace"), _RULE)


def _is_name(text: str, api_version: str) -> bool:
    return is_segment(text) if api_version.startswith(_RBAC) else is_subdomain(text)


def _no_name(text: str, of: str) -> str:
    return f"{text[:60]!r} is no name of {'an' if of[:1].lower() in 'aeiou' else 'a'} {of}."


def _objects_of(stage: AnyStage) -> Iterator[tuple[Where, ObjectName]]:
    match stage:
        case ManifestsStage():
            if stage.detect is not None:
                yield ("detect",), stage.detect
            for key, names in (("ready", stage.ready), ("makes", stage.makes)):
                yield from (((key, index), name) for index, name in enumerate(names))
        case HelmStage():
            yield from ((("ready", index), name) for index, name in enumerate(stage.ready))
        case StorageStage():
            yield from ((("claims", index), name) for index, name in enumerate(stage.claims))
        case PodStage() | JobStage():
            yield ("target",), stage.target
        case CheckStage():
            for index, check in enumerate(stage.checks):
                if isinstance(check, ObjectCheck):
                    yield ("checks", index, "object"), check.object


def _texts_of(stage: AnyStage) -> Iterator[Named]:
    match stage:
        case HelmStage():
            yield ("namespace",), stage.namespace, True
            yield ("release",), stage.release, False
        case CheckStage():
            for index, check in enumerate(stage.checks):
                yield from ((("checks", index, *at), text, is_space) for at, text, is_space in _texts_of_check(check))


def _texts_of_check(check: AnyCheck) -> Iterator[Named]:
    match check:
        case PodsCheck():
            yield ("namespace",), check.namespace, True
        case DiskCheck() | FilesCheck():
            yield ("claim",), check.claim, False
