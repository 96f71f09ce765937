"""Names and references in a blueprint: each name is valid, and each text, condition and watch refers to what exists."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, assert_never

from actions.base.errors import BlueprintError, ParameterError, nearest_hint
from actions.base.names import is_label, is_segment, is_subdomain
from actions.base.numbers import whole
from actions.base.yamldoc import Document
from actions.blueprint.checks import (
    AdapterLogCheck,
    AnyCheck,
    AnyLogCheck,
    BandwidthLogCheck,
    DiskCheck,
    FilesCheck,
    NodesCheck,
    ObjectCheck,
    PodsCheck,
    PoolCheck,
    QuotaCheck,
    RegistryCheck,
    SecretCheck,
)
from actions.blueprint.model import Blueprint, Derived, ExportDestination, Holding, Operand, ParameterType
from actions.blueprint.parameters import read_value
from actions.blueprint.parts import (
    OUTPUT_REFERENCE,
    REFERENCE,
    BlueprintProblem,
    ObjectName,
    ParameterCondition,
    Where,
)
from actions.blueprint.stages import (
    AnyStage,
    CapacityStage,
    CheckStage,
    HelmStage,
    ImageStage,
    JobStage,
    KubeconfigStage,
    LoadTool,
    LogWatch,
    ManifestsStage,
    NetworkStage,
    PodStage,
    StageWatch,
    StorageStage,
    TerraformStage,
)
from actions.blueprint.targets import describe
from actions.fleet.quantity import parse_quantity
from actions.telemetry.points import USUAL_METRICS


def reference_findings(blueprint: Blueprint) -> Iterator[BlueprintProblem]:
    """Every `${…}` that names nothing, and every condition that can never hold."""
    known = {*blueprint.parameters, *blueprint.derived}
    for where, text in _texts_with_values(blueprint):
        yield from unknown_references(where, text, known)
    for name, holding in blueprint.holdings.items():
        yield from _amounts(name, holding)
        yield from _condition(blueprint, holding.when, ("holdings", name, "when"), f"the holding {name}")
    if blueprint.results is not None and blueprint.results.export is not None:
        yield from _outputs_of_export(blueprint, blueprint.results.export)
    for index, stage in enumerate(blueprint.stages):
        where = ("stages", index)
        for text in _texts(stage):
            yield from _unknown_outputs(blueprint, stage, where, text)
        yield from _condition(blueprint, stage.when, (*where, "when"), stage.id)
        played = stage.rehearsal if isinstance(stage, JobStage) else None
        for position, case in enumerate(played.cases if played is not None else ()):
            yield from _condition(blueprint, case.when, (*where, "rehearsal", "cases", position, "when"), stage.id)
        if isinstance(stage, CheckStage | CapacityStage):
            key, checks = ("checks", stage.checks) if isinstance(stage, CheckStage) else ("quotas", stage.quotas)
            for position, check in enumerate(checks):
                yield from _check(blueprint, check, (*where, key, position))


def _amounts(name: str, holding: Holding) -> Iterator[BlueprintProblem]:
    for key in ("count", "disk_gib", "gib"):
        text = getattr(holding, key)
        if not REFERENCE.search(text) and whole(text) is None:
            message = f"the holding {name} has {text[:60]!r}, which is neither a whole number nor ${{name}}."
            yield BlueprintProblem(("holdings", name, key), message)


def secret_problems(blueprint: Blueprint) -> Iterator[BlueprintProblem]:
    """Every use of a secret parameter that would get its reference, such as `env:NAME`, in the place of the secret."""
    secrets = {name: one for name, one in blueprint.parameters.items() if one.type is ParameterType.SECRET}
    for name, parameter in secrets.items():
        for index, target in enumerate(parameter.sets):
            where = f"the {describe(target)}"
            yield BlueprintProblem(("parameters", name, "sets", index), _unresolved(name, where), _REMEDY)
    for name, item in blueprint.derived.items():
        for used in (each for each in operands_of(item) if each in secrets):
            yield BlueprintProblem(("derived", name), _unresolved(str(used), f"the derived value {name}"), _REMEDY)
    for place, text in _texts_with_values(blueprint):
        for used in (each for each in REFERENCE.findall(text) if each in secrets):
            yield BlueprintProblem(place, _unresolved(used, f"the text {text[:60]!r}"), _REMEDY)


def operands_of(item: Derived) -> tuple[Operand, ...]:
    """Return the numbers, and the names of values, that a derived value is computed from."""
    looked_up = (item.lookup.instance,) if item.lookup is not None else ()
    chosen = (item.choose.by, *item.choose.among.values()) if item.choose is not None else ()
    if item.choose is not None and item.choose.otherwise != "" and not item.choose.texts:
        chosen = (*chosen, item.choose.otherwise)
    numbers = (*item.product, *item.sum, *item.smallest, *item.largest, *item.ceil_div, *item.floor_div)
    return (*numbers, *looked_up, *chosen)


def _texts_with_values(blueprint: Blueprint) -> Iterator[tuple[Where, str]]:
    for name, holding in blueprint.holdings.items():
        yield from ((("holdings", name), text) for text in holding.texts)
    for index, stage in enumerate(blueprint.stages):
        yield from ((("stages", index), text) for text in _texts(stage))
    if blueprint.results is not None:
        yield ("results", "folder"), blueprint.results.folder
        if blueprint.results.export is not None:
            yield ("results", "export", "to"), blueprint.results.export.to
            yield ("results", "export", "service_account"), blueprint.results.export.service_account


_REMEDY = "List it under secrets, the Secret under the stage's secrets, and let the pods take it from there."


def _unresolved(name: str, where: str) -> str:
    return f"{name} is a secret, and {where} would get its reference, such as env:NAME, not what it stands for."


def _outputs_of_export(blueprint: Blueprint, export: ExportDestination) -> Iterator[BlueprintProblem]:
    where = ("results", "export", "service_account")
    reported = {f"{stage.id}.{output}" for stage in blueprint.stages for output in stage.outputs}
    for source, output in OUTPUT_REFERENCE.findall(export.service_account):
        if f"{source}.{output}" not in reported:
            message = f"${{{source}.{output}}} is not reported by a stage."
            yield BlueprintProblem(where, message, nearest_hint(f"{source}.{output}", reported))


def unknown_references(where: Where, text: str, known: set[str]) -> Iterator[BlueprintProblem]:
    """The `${name}` of a text that are not among the known names."""
    for name in REFERENCE.findall(text):
        if name not in known:
            yield BlueprintProblem(
                where, f"${{{name}}} is neither a parameter nor a derived value.", nearest_hint(name, known)
            )


def ancestors_of(blueprint: Blueprint, stage: AnyStage) -> set[str]:
    """Return the ids of all stages that a stage needs, directly or not."""
    needs = {item.id: item.needs for item in blueprint.stages}
    found: set[str] = set()
    waiting = list(stage.needs)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(needs.get(name, ()))
    return found


def _texts(stage: AnyStage) -> Iterator[str]:
    """Yield the texts of a stage that may hold `${name}`: mypy refuses a kind of stage that is missing."""
    match stage:
        case KubeconfigStage():
            yield from (stage.cluster, stage.region)
        case CheckStage():
            yield from chain.from_iterable(map(_texts_of_check, stage.checks))
        case CapacityStage():
            yield from (stage.instance_type, str(stage.count), stage.zone, stage.capacity_type, stage.reservation)
            yield from chain.from_iterable(map(_texts_of_check, stage.quotas))
        case HelmStage():
            yield from stage.settings.values()
        case NetworkStage():
            yield stage.security_group
        case ImageStage():
            yield from (stage.repository, stage.tag, *stage.build_args.values())
        case JobStage():
            yield from _texts_of_verdict(stage.verdict)
            yield from stage.environment.values()
        case ManifestsStage():
            yield from stage.environment.values()
        case TerraformStage() | StorageStage() | PodStage():
            pass  # their keys hold names; values reach their files by targets
        case _:
            assert_never(stage)
    yield from _texts_of_watch(stage.watch)


def _texts_of_watch(watch: StageWatch | None) -> Iterator[str]:
    if watch is not None and watch.progress is not None:
        yield from (watch.progress.total, *watch.progress.folders)
    if watch is not None and watch.logs is not None:
        yield watch.logs.file


def _texts_of_verdict(verdict: AnyLogCheck | None) -> Iterator[str]:
    match verdict:
        case AdapterLogCheck():
            yield from (str(verdict.ranks), str(verdict.adapters))
        case BandwidthLogCheck():
            counts = (verdict.nodes, verdict.ranks_per_node, verdict.at_least_percent, verdict.from_bytes)
            yield from (verdict.instance_type, *map(str, counts))


def _texts_of_check(check: AnyCheck) -> Iterator[str]:
    match check:
        case PoolCheck():
            yield check.instance_type
        case QuotaCheck():
            yield from (check.amount, check.capacity_type, check.reservation)
        case NodesCheck():
            yield from (check.selector, str(check.at_least), str(check.amount))
        case RegistryCheck():
            yield check.image
        case DiskCheck():
            yield str(check.free_gib)
        case FilesCheck():
            yield from (check.folder, str(check.at_least))


def _unknown_outputs(blueprint: Blueprint, stage: AnyStage, where: Where, text: str) -> Iterator[BlueprintProblem]:
    earlier = ancestors_of(blueprint, stage)
    reported = {f"{item.id}.{output}" for item in blueprint.stages if item.id in earlier for output in item.outputs}
    for source, output in OUTPUT_REFERENCE.findall(text):
        if f"{source}.{output}" not in reported:
            message = f"{stage.id} takes ${{{source}.{output}}}, which no stage before it reports."
            yield BlueprintProblem(where, message, nearest_hint(f"{source}.{output}", reported))


def _check(blueprint: Blueprint, check: AnyCheck, where: Where) -> Iterator[BlueprintProblem]:
    yield from _condition(blueprint, check.when, (*where, "when"), f"the check {check.title!r}")
    match check:
        case SecretCheck(parameter=named) | RegistryCheck(login=named):
            pass
        case _:
            return
    parameter = blueprint.parameters.get(named)
    if named and (parameter is None or parameter.type is not ParameterType.SECRET):
        message = f"the check {check.title!r} names {named!r}, which is not a parameter of type secret."
        yield BlueprintProblem(where, message, "Add that parameter.")


def _condition(
    blueprint: Blueprint, condition: ParameterCondition | None, where: Where, who: str
) -> Iterator[BlueprintProblem]:
    if condition is None:
        return
    parameter = blueprint.parameters.get(condition.parameter)
    if parameter is None:
        message = f"{who} depends on {condition.parameter!r}, which is not a parameter."
        yield BlueprintProblem((*where, "parameter"), message, nearest_hint(condition.parameter, blueprint.parameters))
        return
    for value in condition.is_:
        try:
            read_value(condition.parameter, parameter, value)
        except ParameterError as error:
            yield BlueprintProblem((*where, "is"), error.message, error.hint)


_API_VERSION = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?(?:/[a-z0-9]{1,63})?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_RBAC = "rbac.authorization.k8s.io/"
"""Objects of this group may be called almost anything: `system:node`."""
OF_KUBERNETES = frozenset({"kube-system", "kube-public", "kube-node-lease"})
"""Namespaces in which no run works, and which none makes."""
_RULE = "Use lower case, digits, - and dots."

Named = tuple[Where, str, bool]
"""The place of a name, the name, and whether it is that of a namespace."""


def naming_problems(blueprint: Blueprint) -> Iterator[BlueprintProblem]:
    """Yield a problem for every name that Kubernetes would refuse."""
    home = blueprint.cluster.namespace
    if not is_label(home) or home in OF_KUBERNETES:
        wrong = f"{home!r} is a namespace of Kubernetes itself." if is_label(home) else _no_name(home, "namespace")
        yield BlueprintProblem(("cluster", "namespace"), wrong, "Name another one." if is_label(home) else _RULE)
    chosen = blueprint.parameters.get("namespace")
    if chosen is not None and chosen.default in OF_KUBERNETES:
        wrong = f"{chosen.default!r} is a namespace of Kubernetes itself."
        yield BlueprintProblem(("parameters", "namespace", "default"), wrong, "Name another one.")
    for name in blueprint.secrets:
        if not is_subdomain(name):
            yield BlueprintProblem(("secrets", name), _no_name(name, "Secret"), _RULE)
    if blueprint.results is not None and not is_subdomain(blueprint.results.claim):
        yield BlueprintProblem(("results", "claim"), _no_name(blueprint.results.claim, "claim"), _RULE)
    for index, stage in enumerate(blueprint.stages):
        where = ("stages", index)
        for at, named in _objects_of(stage):
            yield from _object(where + at, named)
        for at, text, is_namespace in _texts_of(stage):
            if not (is_label(text) if is_namespace else is_subdomain(text)):
                yield BlueprintProblem(where + at, _no_name(text, "namespace" if is_namespace else "object"), _RULE)


def access_problems(blueprint: Blueprint) -> Iterator[BlueprintProblem]:
    """Every stage that talks to the cluster without a way into it: launched, it would fail."""
    kinds = {stage.id: stage for stage in blueprint.stages}
    for index, stage in enumerate(blueprint.stages):
        if not stage.WORKS_IN_CLUSTER:
            continue
        if not any(isinstance(kinds.get(name), KubeconfigStage) for name in ancestors_of(blueprint, stage)):
            message = f"{stage.id} works in the cluster, but needs no stage of kind kubeconfig."
            yield BlueprintProblem(("stages", index), message, "Add such a stage, or need the one that there is.")


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
    if document.value["kind"] == "Namespace" and metadata["name"] in OF_KUBERNETES:
        message = f"the namespace {metadata['name']!r} is Kubernetes' own: a teardown would delete it."
        return document.error(BlueprintError, message, "metadata", "name", hint="Leave it out: it is there.")
    for key, form in (("apiVersion", _API_VERSION), ("kind", _KIND)):
        if form.fullmatch(document.value[key]) is None:
            return document.error(BlueprintError, f"{document.value[key][:60]!r} is no {key}.", key)
    for where, amount in _amounts_in(document.value.get("spec"), ("spec",)):
        try:
            parse_quantity(str(amount))
        except ValueError as error:
            return document.error(BlueprintError, f"{error}.", *where, hint="Write it as 4, 500m or 16Gi.")
    return None


def _amounts_in(node: Any, where: Where) -> Iterator[tuple[Where, Any]]:
    """Yield the amounts of resources below a node, with their places."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node if isinstance(node, list) else ()):
        if "resources" in where[-1:] and key in ("requests", "limits") and isinstance(value, dict):
            yield from (((*where, key, name), amount) for name, amount in value.items() if amount is not None)
        else:
            yield from _amounts_in(value, (*where, key))


def _object(where: Where, name: ObjectName) -> Iterator[BlueprintProblem]:
    if _API_VERSION.fullmatch(name.api_version) is None:
        yield BlueprintProblem(
            (*where, "api_version"), f"{name.api_version[:60]!r} is not an API version.", "Write v1 or batch/v1."
        )
    if _KIND.fullmatch(name.kind) is None:
        yield BlueprintProblem((*where, "kind"), f"{name.kind[:60]!r} is not a kind.")
    if not _is_name(name.name, name.api_version):
        yield BlueprintProblem((*where, "name"), _no_name(name.name, name.kind[:60] or "object"), _RULE)
    if name.namespace and not is_label(name.namespace):
        yield BlueprintProblem((*where, "namespace"), _no_name(name.namespace, "namespace"), _RULE)


def _is_name(text: str, api_version: str) -> bool:
    return is_segment(text) if api_version.startswith(_RBAC) else is_subdomain(text)


def _no_name(text: str, of: str) -> str:
    return f"{text[:60]!r} is not a valid {of} name."


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
                yield from ((("checks", index, *at), text, is_space) for at, text, is_space in _names_in_check(check))


def _names_in_check(check: AnyCheck) -> Iterator[Named]:
    match check:
        case PodsCheck():
            yield ("namespace",), check.namespace, True
        case DiskCheck() | FilesCheck():
            yield ("claim",), check.claim, False


UID = "{uid}"
"""Stands in the path of a log for the UID of a pod."""


def watch_problems(blueprint: Blueprint) -> Iterator[BlueprintProblem]:
    """Everything that is wrong with what stages follow."""
    for index, stage in enumerate(blueprint.stages):
        if stage.watch is None:
            continue
        where = ("stages", index, "watch")
        logs = stage.watch.logs
        for position, name in enumerate(stage.watch.charts):
            if meant := _metric_like(name):
                message = f"{stage.id} has a chart of {name!r}, which no log has."
                hint = f"Did you mean {meant}? Usual: {', '.join(USUAL_METRICS)}; else the trainer's own names."
                yield BlueprintProblem((*where, "charts", position), message, hint)
        if logs is not None:
            yield from _logs((*where, "logs"), stage.id, logs)
        elif stage.watch.accelerator is not LoadTool.NONE and not stage.watch.devices:
            message = f"{stage.id} watches accelerators, but neither logs nor devices names the pods."
            yield BlueprintProblem((*where, "accelerator"), message, "Add devices, a label selector.")
        if logs is not None and not logs.pods and isinstance(stage, JobStage) and stage.rehearsal is not None:
            message = f"{stage.id} is rehearsed with a log that its pods print, but watches another one."
            yield BlueprintProblem(("stages", index, "rehearsal"), message, "Name the pods under watch.logs.pods.")


def _metric_like(name: str) -> str:
    """Return the usual metric that a name is another spelling of; empty for one that may be a trainer's own."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    if name in USUAL_METRICS or "/" in name:
        return ""
    if plain in ("loss", "trainingloss"):
        return "train_loss"
    spellings = {metric.replace("_", ""): metric for metric in USUAL_METRICS}
    close = difflib.get_close_matches(plain, spellings, n=1, cutoff=0.9)
    return spellings[close[0]] if close else ""


def _logs(where: Where, stage: str, logs: LogWatch) -> Iterator[BlueprintProblem]:
    sources = [name for name, value in (("pods", logs.pods), ("file", logs.file), ("exec", logs.exec)) if value]
    if len(sources) != 1:
        named = " and ".join(sources) or "none"
        yield BlueprintProblem(where, f"the log of {stage} needs exactly one of pods, file and exec; it has {named}.")
        return
    source = sources[0]
    if source != "pods" and not logs.pod:
        message = f"the log of {stage} is read in a pod, but no pod is named."
        yield BlueprintProblem((*where, source), message, "Add pod, a label selector that finds one.")
    if any(UID in word for word in logs.exec):
        message = f"the log of {stage} has {UID} in exec, where no UID is put in."
        yield BlueprintProblem(
            (*where, "exec"), message, "Name the file under file, and its pod's selector under uid_of."
        )
    elif UID in logs.file and not logs.uid_of:
        message = f"the path of {stage}'s log holds {UID}, but no pod is named whose UID it is."
        yield BlueprintProblem((*where, "file"), message, "Add uid_of, the label selector of that pod.")
    elif logs.uid_of and UID not in logs.file:
        message = f"the log of {stage} has uid_of, and no path with {UID} to put it into."
        yield BlueprintProblem((*where, "uid_of"), message, f"Write {UID} into file, or leave uid_of out.")
