"""What texts and conditions of a blueprint refer to: parameters, derived values, outputs of earlier stages."""

from __future__ import annotations

from collections.abc import Iterator

from actions.base.errors import ParameterError
from actions.blueprint.checks import (
    AnyCheck,
    CapacityCheck,
    DiskCheck,
    FilesCheck,
    NodesCheck,
    PoolCheck,
    QuotaCheck,
    RegistryCheck,
    SecretCheck,
)
from actions.blueprint.finding import Finding, Where, known_names
from actions.blueprint.model import Blueprint, ParameterType
from actions.blueprint.parameters import read_value
from actions.blueprint.parts import OUTPUT_REFERENCE, REFERENCE, Condition
from actions.blueprint.stages import (
    AnyStage,
    CheckStage,
    HelmStage,
    ImageStage,
    JobStage,
    KubeconfigStage,
    NetworkStage,
    Watch,
)
from actions.blueprint.verdicts import AdaptersVerdict, AnyVerdict, BandwidthVerdict


def reference_findings(blueprint: Blueprint) -> Iterator[Finding]:
    """Every `${…}` that names nothing, and every condition that can never hold."""
    known = {*blueprint.parameters, *blueprint.derived}
    for name, holding in blueprint.holdings.items():
        for text in (holding.instance_type, holding.count, holding.gib):
            yield from unknown_references(("holdings", name), text, known)
    if blueprint.results is not None:
        yield from unknown_references(("results", "folder"), blueprint.results.folder, known)
    for index, stage in enumerate(blueprint.stages):
        where = ("stages", index)
        for text in _texts(stage):
            yield from unknown_references(where, text, known)
            yield from _unknown_outputs(blueprint, stage, where, text)
        yield from _condition(blueprint, stage.when, (*where, "when"), stage.id)
        if isinstance(stage, CheckStage):
            for position, check in enumerate(stage.checks):
                yield from _check(blueprint, check, (*where, "checks", position))


def unknown_references(where: Where, text: str, known: set[str]) -> Iterator[Finding]:
    """The `${name}` of a text that are not among the known names."""
    for name in REFERENCE.findall(text):
        if name not in known:
            yield Finding(where, f"${{{name}}} is neither a parameter nor a derived value.", known_names(known))


def ancestors_of(blueprint: Blueprint, stage: AnyStage) -> set[str]:
    """Ids of all stages that a stage needs, directly or not."""
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
    match stage:
        case KubeconfigStage():
            yield from (stage.cluster, stage.region)
        case CheckStage():
            for check in stage.checks:
                yield from _texts_of_check(check)
        case HelmStage():
            yield from stage.settings.values()
        case NetworkStage():
            yield stage.security_group
        case ImageStage():
            yield from (stage.repository, stage.tag, *stage.build_args.values())
        case JobStage() if stage.verdict is not None:
            yield from _texts_of_verdict(stage.verdict)
    if stage.watch is not None:
        yield from _texts_of_watch(stage.watch)


def _texts_of_watch(watch: Watch) -> Iterator[str]:
    if watch.progress is not None:
        yield watch.progress.total
    if watch.logs is not None:
        yield watch.logs.file


def _texts_of_verdict(verdict: AnyVerdict) -> Iterator[str]:
    match verdict:
        case AdaptersVerdict():
            yield from (str(verdict.ranks), str(verdict.adapters))
        case BandwidthVerdict():
            counts = (verdict.nodes, verdict.ranks_per_node, verdict.at_least_percent, verdict.from_bytes)
            yield from (verdict.instance_type, *map(str, counts))


def _texts_of_check(check: AnyCheck) -> Iterator[str]:
    match check:
        case PoolCheck():
            yield check.instance_type
        case QuotaCheck():
            yield check.amount
        case NodesCheck():
            yield from (check.selector, str(check.at_least), str(check.amount))
        case CapacityCheck():
            yield from (check.capacity_type, check.reservation, check.instance_type, str(check.count))
        case RegistryCheck():
            yield check.image
        case DiskCheck():
            yield str(check.free_gib)
        case FilesCheck():
            yield from (check.folder, str(check.at_least))


def _unknown_outputs(blueprint: Blueprint, stage: AnyStage, where: Where, text: str) -> Iterator[Finding]:
    earlier = ancestors_of(blueprint, stage)
    reported = {f"{item.id}.{output}" for item in blueprint.stages if item.id in earlier for output in item.outputs}
    for source, output in OUTPUT_REFERENCE.findall(text):
        if f"{source}.{output}" not in reported:
            message = f"{stage.id} takes ${{{source}.{output}}}, which no stage before it reports."
            yield Finding(where, message, known_names(reported))


def _check(blueprint: Blueprint, check: AnyCheck, where: Where) -> Iterator[Finding]:
    yield from _condition(blueprint, check.when, (*where, "when"), f"the check {check.title!r}")
    match check:
        case SecretCheck(parameter=named) | RegistryCheck(login=named):
            pass
        case _:
            return
    parameter = blueprint.parameters.get(named)
    if named and (parameter is None or parameter.type is not ParameterType.SECRET):
        message = f"the check {check.title!r} asks for {named!r}, which is no parameter of type secret."
        yield Finding(where, message, "Add that parameter.")


def _condition(blueprint: Blueprint, condition: Condition | None, where: Where, who: str) -> Iterator[Finding]:
    if condition is None:
        return
    parameter = blueprint.parameters.get(condition.parameter)
    if parameter is None:
        message = f"{who} depends on {condition.parameter!r}, which is not a parameter."
        yield Finding((*where, "parameter"), message, known_names(blueprint.parameters))
        return
    for value in condition.is_:
        try:
            read_value(condition.parameter, parameter, value)
        except ParameterError as error:
            yield Finding((*where, "is"), error.message, error.hint)
