"""The consistency of a blueprint: names that refer to each other, the stage graph, targets that match once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial

from actions.base.errors import BlueprintError, ParameterError, nearest_hint
from actions.base.names import is_segment
from actions.base.patterns import PatternError, compile_pattern
from actions.blueprint.copied_files import copied_files
from actions.blueprint.model import MOST_SHOWN, Blueprint, Parameter, ParameterType
from actions.blueprint.parameters import bounds_of, operations_of, read_value, relations_of
from actions.blueprint.parts import BlueprintProblem, FieldTarget, Where
from actions.blueprint.references import (
    ancestors_of,
    manifest_error,
    naming_problems,
    operands_of,
    reference_findings,
    secret_problems,
    unknown_references,
    watch_problems,
)
from actions.blueprint.source_files import (
    Declarations,
    declarations_of,
    inside,
    located,
    read_manifests,
    recorded_logs,
    shared_by,
)
from actions.blueprint.stages import (
    AnyStage,
    CapacityStage,
    HelmStage,
    ImageStage,
    ManifestsStage,
    Source,
    TerraformStage,
)
from actions.blueprint.targets import Manifest, find, form_error

IMAGE_OUTPUTS = frozenset({"image", "digest"})
"""The outputs of an image stage."""
CAPACITY_OUTPUTS = frozenset({"zone", "zone_id", "placement_group"})
"""The outputs of a capacity stage."""

Roots = Callable[[str], Declarations]
"""Reads a Terraform root by its path; raises a `BlueprintError`."""


def blueprint_problems(blueprint: Blueprint) -> Iterator[BlueprintProblem]:
    """Everything that is wrong; reads the manifests and Terraform roots that it names, if all of them can be found."""
    roots = cache(partial(declarations_of, blueprint.folder))
    of_the_text: tuple[Callable[[Blueprint], Iterable[BlueprintProblem]], ...] = (
        _form,
        _parameters,
        _derived,
        _rules,
        _graph,
        reference_findings,
        _secrets,
        secret_problems,
        _presets,
        _capacities,
        _releases,
        watch_problems,
        naming_problems,
    )
    for check in of_the_text:
        yield from check(blueprint)
    lost = tuple(_paths(blueprint))
    yield from lost
    of_the_files = (partial(_targets, roots=roots), partial(_roots, roots=roots), _images, _copy)
    for check in of_the_files if not lost else ():
        yield from check(blueprint)


def _paths(blueprint: Blueprint) -> Iterator[BlueprintProblem]:
    """The files and folders that cannot be found. All else that is said of files would follow from these."""
    for where, name in _named_paths(blueprint):
        try:
            path = located(blueprint.folder, name)
        except BlueprintError as error:
            yield BlueprintProblem(where, error.text, error.hint)
        else:
            if not os.path.lexists(path):
                yield BlueprintProblem(
                    where, f"there is no {blueprint.folder / name}.", "Write it, or correct its name."
                )


def _named_paths(blueprint: Blueprint) -> Iterator[tuple[Where, str]]:
    for index, stage in enumerate(blueprint.stages):
        where = ("stages", index)
        yield from (((*where, "manifests", position), file) for position, file in enumerate(stage.files))
        yield from (((*where, "rehearsal", "log"), file) for file in recorded_logs(stage))
        match stage:
            case TerraformStage(root=root):
                yield (*where, "root"), root
            case ImageStage(context=name) if name:
                yield (*where, "context"), name
            case HelmStage(values=name) if name:
                yield (*where, "values"), name
    for name, preset in blueprint.presets.items():
        yield from ((("presets", name, "roots", stage), root) for stage, root in preset.roots.items())


def _copy(blueprint: Blueprint) -> Iterator[BlueprintProblem]:
    try:
        copied_files(blueprint.folder, shared_by(blueprint))
    except BlueprintError as error:
        yield BlueprintProblem((), error=error)


def _form(blueprint: Blueprint) -> Iterator[BlueprintProblem]:
    if len(blueprint.form) > MOST_SHOWN:
        message = f"form lists {len(blueprint.form)} parameters; a person decides {MOST_SHOWN} at most."
        yield BlueprintProblem(("form", MOST_SHOWN), message, "Leave the others to their groups.")
    for index, name in enumerate(blueprint.form):
        if name not in blueprint.parameters:
            hint = nearest_hint(name, blueprint.parameters)
            yield BlueprintProblem(("form", index), f"form lists {name!r}, which is not a parameter.", hint)
        elif name in blueprint.form[:index]:
            yield BlueprintProblem(("form", index), f"form lists {name} twice.", "Remove one.")


def _parameters(blueprint: Blueprint) -> Iterator[BlueprintProblem]:
    for name, parameter in blueprint.parameters.items():
        where = ("parameters", name)
        low, high = parameter.minimum, parameter.maximum
        if low is not None and high is not None and low > high:
            yield BlueprintProblem((*where, "minimum"), f"{name} has a minimum above its maximum.", "Swap them.")
        elif wrong := _wrong_pattern(parameter.pattern):
            hint = "Write a regular expression of RE2's language."
            yield BlueprintProblem((*where, "pattern"), f"the pattern of {name} cannot be used: {wrong}.", hint)
        elif parameter.type is not ParameterType.SECRET or parameter.default:
            yield from _default(where, name, parameter)


def _wrong_pattern(pattern: str) -> str:
    try:
        compile_pattern(pattern)
    except PatternError as error:
        return str(error)
    return ""


def _default(where: Where, name: str, parameter: Parameter) -> Iterator[BlueprintProblem]:
    try:
        read_value(name, parameter, parameter.default)
    except ParameterError:
        message = f"the default of {name} is not {bounds_of(parameter)}."
        yield BlueprintProblem((*where, "default"), message, "Change the default or the bounds.")


def _derived(blueprint: Blueprint) -> Iterator[BlueprintProblem]:
    known = set(blueprint.parameters)
    for name, item in blueprint.derived.items():
        where = ("derived", name)
        if name in blueprint.parameters:
            yield BlueprintProblem(where, f"{name} is a parameter already.", "Give it another name.")
        pairs = [operands for operands in (item.ceil_div, item.floor_div) if operands]
        if len(operations_of(item)) != 1 or any(len(operands) != 2 for operands in pairs):
            yield BlueprintProblem(
                where,
                f"{name} needs exactly one of product, sum, smallest, largest, ceil_div and floor_div (of two), "
                "lookup and choose.",
            )
        if item.choose is not None and bool(item.choose.among) is bool(item.choose.texts):
            yield BlueprintProblem((*where, "choose"), f"choose of {name} needs exactly one of among and texts.")
        for operand in operands_of(item):
            if isinstance(operand, str) and operand not in known:
                yield BlueprintProblem(
                    where, f"{name} uses {operand!r}, which is not defined before it.", nearest_hint(operand, known)
                )
        known.add(name)


def _rules(blueprint: Blueprint) -> Iterator[BlueprintProblem]:
    known = _names(blueprint)
    for index, rule in enumerate(blueprint.rules):
        where = ("rules", index)
        pairs = [operands for operands in (rule.equal, rule.at_most, rule.divides, rule.unlike) if operands]
        if len(relations_of(rule)) != 1 or any(len(operands) != 2 for operands in pairs):
            message = "a rule needs exactly one of equal, at_most, divides, unlike (of two) and one_of."
            yield BlueprintProblem(where, message)
        if len(rule.unlike) == 2 and (wrong := _wrong_pattern(str(rule.unlike[1]))):
            yield BlueprintProblem((*where, "unlike"), f"its pattern cannot be used: {wrong}.", "Correct the pattern.")
        operands = (*rule.equal, *rule.at_most, *rule.divides, *rule.one_of[:1], *rule.unlike[:1])
        for operand in operands:
            if isinstance(operand, str) and operand not in known:
                yield BlueprintProblem(
                    where, f"the rule uses {operand!r}, which is not defined.", nearest_hint(operand, known)
                )
        yield from unknown_references((*where, "message"), rule.message, known)


def _graph(blueprint: Blueprint) -> Iterator[BlueprintProblem]:
    """Stages stand in an order in which each comes after all it needs: so there is no circle."""
    ids = [stage.id for stage in blueprint.stages]
    placed: set[str] = set()
    for index, stage in enumerate(blueprint.stages):
        where = ("stages", index)
        if stage.id in placed:
            yield BlueprintProblem((*where, "id"), f"two stages are called {stage.id!r}.", "Rename one.")
        for position, need in enumerate(stage.needs):
            if need not in ids:
                message = f"{stage.id} needs {need!r}, which is not a stage."
                yield BlueprintProblem((*where, "needs", position), message, nearest_hint(need, ids))
            elif need not in placed:
                message = f"{stage.id} needs {need}, which does not come before it."
                yield BlueprintProblem((*where, "needs", position), message, "Move it up, or break the circle.")
        for name in stage.holds:
            if name not in blueprint.holdings:
                message = f"{stage.id} holds {name!r}, which is not among holdings."
                yield BlueprintProblem((*where, "holds"), message, nearest_hint(name, blueprint.holdings))
        for name in stage.secrets:
            if name not in blueprint.secrets:
                message = f"{stage.id} needs the secret {name!r}, which is not among secrets."
                yield BlueprintProblem((*where, "secrets"), message, nearest_hint(name, blueprint.secrets))
        placed.add(stage.id)


def _secrets(blueprint: Blueprint) -> Iterator[BlueprintProblem]:
    for name, secret in blueprint.secrets.items():
        parameter = blueprint.parameters.get(secret.parameter)
        if parameter is None or parameter.type is not ParameterType.SECRET:
            message = f"the secret {name} takes {secret.parameter!r}, which is not a parameter of type secret."
            yield BlueprintProblem(("secrets", name), message, "Add that parameter.")


def _presets(blueprint: Blueprint) -> Iterator[BlueprintProblem]:
    stages = {stage.id: stage for stage in blueprint.stages}
    for preset_name, preset in blueprint.presets.items():
        where = ("presets", preset_name)
        for name, value in preset.set.items():
            parameter = blueprint.parameters.get(name)
            if parameter is None:
                message = f"the preset sets {name!r}, which is not a parameter."
                yield BlueprintProblem((*where, "set", name), message, nearest_hint(name, blueprint.parameters))
                continue
            try:
                read_value(name, parameter, value)
            except ParameterError as error:
                yield BlueprintProblem((*where, "set", name), error.message, error.hint)
        for key, named in (("expect", preset.expect), ("roots", preset.roots)):
            for stage_id in named:
                stage = stages.get(stage_id)
                if stage is None or (key == "roots" and not isinstance(stage, TerraformStage)):
                    message = f"the preset names the stage {stage_id!r}, which is not there or has no root."
                    yield BlueprintProblem((*where, key, stage_id), message, nearest_hint(stage_id, stages))


def _roots(blueprint: Blueprint, *, roots: Roots) -> Iterator[BlueprintProblem]:
    answers = [target for target in _value_targets(blueprint) if target.tfvar]
    for preset in ("", *blueprint.presets):
        for index, stage in enumerate(blueprint.stages):
            if preset and stage.id not in blueprint.presets[preset].roots:
                continue
            where = ("presets", preset, "roots", stage.id) if preset else ("stages", index, "root")
            root = blueprint.presets[preset].roots[stage.id] if preset else getattr(stage, "root", "")
            if isinstance(stage, TerraformStage):
                try:
                    declared = roots(root)
                except BlueprintError as error:
                    yield BlueprintProblem(where, error=error)
                else:
                    yield from _root(stage, root, declared, where, answers)


def _images(blueprint: Blueprint) -> Iterator[BlueprintProblem]:
    for index, stage in enumerate(blueprint.stages):
        if not isinstance(stage, ImageStage):
            continue
        for name in sorted(set(stage.outputs) - IMAGE_OUTPUTS):
            message = f"{stage.id} reports {name!r}, which is not an output of an image stage."
            yield BlueprintProblem(("stages", index, "outputs"), message, nearest_hint(name, IMAGE_OUTPUTS))
        if stage.context and not (inside(blueprint.folder, stage.context) / stage.dockerfile).is_file():
            message = f"{stage.id} builds from {stage.context}/{stage.dockerfile}, which is not there."
            yield BlueprintProblem(("stages", index, "context"), message)


def _capacities(blueprint: Blueprint) -> Iterator[BlueprintProblem]:
    for index, stage in enumerate(blueprint.stages):
        if isinstance(stage, CapacityStage):
            for name in sorted(set(stage.outputs) - CAPACITY_OUTPUTS):
                message = f"{stage.id} reports {name!r}, which is not an output of a capacity stage."
                yield BlueprintProblem(("stages", index, "outputs"), message, nearest_hint(name, CAPACITY_OUTPUTS))


def _root(
    stage: TerraformStage, root: str, found: Declarations, where: Where, answers: Sequence[FieldTarget]
) -> Iterator[BlueprintProblem]:
    """Return the problems of one root. `answers` are the targets that are variables of Terraform."""
    declared = found.variables
    answered = {target.tfvar for target in answers if _is_for(target, stage)}
    wired = {wire.tfvar for wire in stage.sets if wire.tfvar} | set(stage.variables) | set(stage.values)
    for name in sorted(wired - set(declared)):
        message = f"{stage.id} sets the variable {name!r}, which {root} does not declare."
        yield BlueprintProblem(where, message, nearest_hint(name, declared))
    for name in sorted(name for name, is_needed in declared.items() if is_needed and name not in answered | wired):
        yield BlueprintProblem(
            where, f"{root} needs the variable {name!r}, which nothing sets.", "Set it, or give a default."
        )
    for name in sorted(set(stage.outputs) - found.outputs):
        message = f"{stage.id} reports {name!r}, which is not an output of {root}."
        yield BlueprintProblem(where, message, nearest_hint(name, found.outputs))


def _targets(blueprint: Blueprint, *, roots: Roots) -> Iterator[BlueprintProblem]:
    files: dict[str, list[Manifest] | None] = {}
    for stage_index, stage in enumerate(blueprint.stages):
        for file in stage.files:
            if file not in files:
                files[file], errors = _manifests(blueprint, file)
                yield from (BlueprintProblem(("stages", stage_index, "manifests"), error=error) for error in errors)
    for where, target in _all_targets(blueprint):
        yield from _target(blueprint, target, where, files, roots)
    reported = {f"{stage.id}.{output}" for stage in blueprint.stages for output in stage.outputs}
    for index, stage in enumerate(blueprint.stages):
        for position, wire in enumerate(stage.sets):
            if wire.source not in reported or wire.source.partition(".")[0] not in ancestors_of(blueprint, stage):
                message = f"{stage.id} takes {wire.source!r}, which no stage before it reports."
                yield BlueprintProblem(
                    ("stages", index, "sets", position, "from"), message, nearest_hint(wire.source, reported)
                )


def _manifests(blueprint: Blueprint, file: str) -> tuple[list[Manifest] | None, list[BlueprintError]]:
    """The objects of a file, `None` if it cannot be read; and what is wrong with it."""
    try:
        documents = read_manifests(blueprint.folder, file)
    except BlueprintError as error:
        return None, [error]
    wrong = [found for document in documents if (found := manifest_error(document)) is not None]
    return [dict(document.value) for document in documents], wrong


def _target(
    blueprint: Blueprint,
    target: FieldTarget,
    where: Where,
    files: Mapping[str, list[Manifest] | None],
    roots: Roots,
) -> Iterator[BlueprintProblem]:
    """Return the problems of one target. `None` stands for a file that cannot be read, which has been reported."""
    wrong = form_error(target)
    if wrong:
        yield BlueprintProblem(where, wrong)
    elif target.tfvar:
        if not any(_declares(stage, target, roots) for stage in blueprint.stages):
            known = _declared_by(blueprint, roots)
            message = f"no Terraform root declares the variable {target.tfvar!r}."
            yield BlueprintProblem(where, message, nearest_hint(target.tfvar, known))
    elif target.file not in files:
        yield BlueprintProblem(
            (*where, "file"),
            f"{target.file!r} is not among the manifests of a stage.",
            nearest_hint(target.file, files),
        )
    elif (manifests := files[target.file]) is not None:
        try:
            find(target, manifests)
        except BlueprintError as error:
            yield BlueprintProblem(where, error.message, error.hint)


def _declares(stage: AnyStage, target: FieldTarget, roots: Roots) -> bool:
    if not isinstance(stage, TerraformStage) or not _is_for(target, stage):
        return False
    try:
        return target.tfvar in roots(stage.root).variables
    except BlueprintError:  # `_roots` reports it
        return True


def _declared_by(blueprint: Blueprint, roots: Roots) -> set[str]:
    found: set[str] = set()
    for stage in blueprint.stages:
        if isinstance(stage, TerraformStage):
            with suppress(BlueprintError):  # `_roots` reports it
                found |= set(roots(stage.root).variables)
    return found


def _all_targets(blueprint: Blueprint) -> Iterator[tuple[Where, FieldTarget]]:
    for name, parameter in blueprint.parameters.items():
        for index, target in enumerate(parameter.sets):
            yield ("parameters", name, "sets", index), target
    for name, item in blueprint.derived.items():
        for index, target in enumerate(item.sets):
            yield ("derived", name, "sets", index), target
    for stage_index, stage in enumerate(blueprint.stages):
        for index, wire in enumerate(stage.sets):
            yield ("stages", stage_index, "sets", index), wire


def _value_targets(blueprint: Blueprint) -> Iterator[FieldTarget]:
    for parameter in blueprint.parameters.values():
        yield from parameter.sets
    for item in blueprint.derived.values():
        yield from item.sets


def _is_for(target: FieldTarget, stage: TerraformStage) -> bool:
    return target.stage in ("", stage.id)


def _names(blueprint: Blueprint) -> set[str]:
    return {*blueprint.parameters, *blueprint.derived}


def _releases(blueprint: Blueprint) -> Iterator[BlueprintProblem]:
    """Each release of an operator is one file, or several with what is done to them; its names are names of files."""
    for index, stage in enumerate(blueprint.stages):
        if isinstance(stage, ManifestsStage) and stage.source is not None:
            where = ("stages", index, "source")
            for key, message, hint in _mistakes_of(stage.source):
                yield BlueprintProblem((*where, key), f"the source of {stage.id} {message}.", hint)


def _mistakes_of(source: Source) -> Iterator[tuple[str, str, str]]:
    """Yield the key, what is wrong, and the way out."""
    for key in ("name", "version"):
        if not is_segment(getattr(source, key)):
            yield key, f"has {getattr(source, key)[:60]!r} as {key}, which cannot be a folder", "Correct it."
    steps = [key for key in ("namespace", "images", "changes") if getattr(source, key)]
    if steps and not source.files:
        yield (
            steps[0],
            f"has {steps[0]} without files",
            "A single file is applied as it is: leave it out.",
        )
    if source.files and not source.url:
        yield "files", "has files and no url", "Write the address of their folder."
    if source.files and source.sha256:
        yield "sha256", "has files and a sha256", "Leave it empty: each file has its own."
    for file in source.files:
        if not all(is_segment(step) and "\\" not in step for step in file.split("/")):
            yield "files", f"has {file[:60]!r} among files, which is not a path below url", "Correct it."
