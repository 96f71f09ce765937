"""Manifests of operators and the image of a launch: here already, or to be fetched and built."""

from __future__ import annotations

import asyncio
import shutil
from functools import partial
from typing import Any

from msgspec.structs import replace

from actions.base.errors import AccessError, ConsoleError, MissingError
from actions.base.wording import counted, listed
from actions.blueprint.mirror import CopyState, copy_of, key_of, mirror_command
from actions.blueprint.operators import address_of, mirror_folder, needed_operators
from actions.blueprint.parts import OUTPUT_REFERENCE
from actions.blueprint.render import placeholders_of, stage_manifests
from actions.blueprint.stages import AnyStage, ImageStage, ManifestsStage, Source, TerraformStage
from actions.blueprint.terraform_modules import missing_modules, needed_modules
from actions.cloud.ecr import Repository, fetch_digest, repository_of
from actions.cluster.objects.client import ref_of
from actions.run.checks.cluster import operator_refusal
from actions.run.checks.external import aws_session, check_address
from actions.run.checks.observation import Observation, failed, passed, unknown
from actions.run.context.access import ClusterConnection
from actions.run.doctor.account import Caller
from actions.run.doctor.launch import PlannedLaunch
from actions.run.doctor.programs import check_docker
from actions.run.doctor.report import Question
from actions.run.objects.inventory import ref_of_name
from actions.run.stages.manifests import all_served, defined_kinds
from actions.run.state.records import CheckResult


def operator_questions(launch: PlannedLaunch, connection: ClusterConnection | None) -> list[Question]:
    """Return a question for each operator whose manifests come from outside of the project.

    Args:
        launch: The launch.
        connection: The cluster, if the launch goes into one that is there already.
    """
    questions = []
    brought_not = {key_of(source) for source in needed_operators(launch.blueprint, launch.binding)}
    for stage in launch.stages:
        if isinstance(stage, ManifestsStage) and stage.source is not None:
            is_brought = key_of(stage.source) not in brought_not
            look = partial(check_operator, launch, stage, stage.source, connection, is_brought=is_brought)
            remedy = operator_remedy(stage.source)
            questions.append(Question(f"operator {stage.source.name}", look, remedy, is_blocking=True))
    return questions


def module_questions(launch: PlannedLaunch) -> list[Question]:
    """Return the question for the Terraform modules that the launch's roots call, if they call any."""
    if not needed_modules(launch.blueprint, launch.binding):
        return []
    remedy = (
        f"Run eksml-tui mirror where the internet can be reached, and copy its folder to {mirror_folder()}; "
        "or install git and put it on PATH."
    )
    return [Question("Terraform modules", partial(check_modules, launch), remedy, is_blocking=True)]


async def check_modules(launch: PlannedLaunch) -> Observation:
    """Check that the archives of all modules are on this machine or can be fetched; else git has to fetch them."""
    try:
        missing = missing_modules(launch.blueprint, launch.binding)
    except ConsoleError as error:
        return failed(error.message)
    if not missing:
        return passed(f"Here: {counted(len(needed_modules(launch.blueprint, launch.binding)), 'module')}.")
    found = await asyncio.gather(*(check_address(release.url) for release in missing))
    for release, answer in zip(missing, found, strict=True):
        if answer.result is not CheckResult.PASSED:
            is_git_here = shutil.which("git") is not None
            without = "" if is_git_here else " Nor is git on PATH, by which Terraform could fetch it."
            detail = f"{release.key} is not on this machine: {answer.detail}{without}"
            return unknown(detail) if is_git_here else failed(detail)
    return passed(f"{listed([release.key for release in missing], _SHOWN)} can be fetched at launch.")


_SHOWN = 3


def operator_remedy(source: Source) -> str:
    """Return the remedy for manifests that are not here and cannot be fetched."""
    if not source.is_pinned:
        return mirror_command(source)
    where = f"{mirror_folder()}/{source.name}/{source.version}"
    return f"Run eksml-tui mirror {source.name} where the internet can be reached, and copy its folder to {where}."


async def check_operator(
    launch: PlannedLaunch,
    stage: ManifestsStage,
    source: Source,
    connection: ClusterConnection | None,
    *,
    is_brought: bool,
) -> Observation:
    """Check that an operator is in the cluster, or its manifests are on this machine or can be fetched.

    Raises:
        ConsoleError: The cluster does not answer.
    """
    named = f"{source.name} {source.version}"
    installed = await find_installed(connection, stage, launch)
    if installed is not None:
        refusal = operator_refusal(installed, stage.refuses)
        if refusal is not None:
            return failed(f"{refusal.reason}.", remedy=refusal.hint)
        return passed(f"{source.name} is in the cluster{'' if installed else ': it serves its kinds'}.")
    if is_brought:
        return passed(f"{named} is brought by the preset.")
    try:
        copy = copy_of(source)
    except ConsoleError as error:
        return failed(error.message)
    match copy.state:
        case CopyState.VERIFIED | CopyState.UNVERIFIED:
            return passed(f"{named} is here, {copy.state.value}: {copy.note}.")
        case CopyState.FETCHED:
            address = address_of(source, next(iter(source.files))) if source.files else source.url
            found = await check_address(address)
            return replace(found, detail=f"{named} is fetched at launch: {found.detail}")
        case CopyState.MISSING:
            return failed(f"{named} is not on this machine, and nothing is recorded by which it could be verified.")


async def find_installed(
    connection: ClusterConnection | None, stage: ManifestsStage, launch: PlannedLaunch
) -> dict[str, Any] | None:
    """Return the object of a cluster by which a stage detects that nothing is to be applied; `None` without one.

    One that may not be looked at is there if the cluster serves all kinds that the stage would define: an empty object.

    Raises:
        AccessError: It may not be looked at, and the stage defines no kinds or other ones.
        ConsoleError: The cluster does not answer.
    """
    if connection is None or stage.detect is None:
        return None
    try:
        return await connection.find(ref_of_name(stage.detect, launch.namespace))
    except AccessError:
        if await all_served(connection, defined_kinds(launch_objects(launch, stage))):
            return {}
        raise


async def is_there(connection: ClusterConnection | None, stage: AnyStage, launch: PlannedLaunch) -> bool:
    """Return whether a cluster has what a stage would install, or keeps all of it out of reach: it is taken for there.

    Errors as in `find_installed`.
    """
    if not isinstance(stage, ManifestsStage):
        return False
    try:
        return await find_installed(connection, stage, launch) is not None
    except AccessError:
        refs = [ref_of(one) for one in launch_objects(launch, stage)]
        if connection is None or not all([await connection.is_out_of_reach(ref) for ref in refs]):
            raise
        return True


def launch_objects(launch: PlannedLaunch, stage: AnyStage) -> list[dict[str, Any]]:
    """Return all objects of a stage, with its operator's if those are on this machine."""
    if not isinstance(stage, ManifestsStage) or stage.source is None:
        return launch.objects(stage)
    try:
        return stage_manifests(
            launch.blueprint,
            stage.id,
            launch.binding,
            run_id="RUN",
            outputs=placeholders_of(stage),
            namespace=launch.namespace,
        )
    except MissingError:
        return launch.objects(stage)


def image_questions(launch: PlannedLaunch, caller: Caller) -> list[Question]:
    """Return a question for each image that the launch builds or looks up in ECR."""
    return [
        Question(
            f"image of {stage.id}", partial(check_build, launch, stage, caller), image_remedy(stage), is_blocking=True
        )
        for stage in launch.stages
        if isinstance(stage, ImageStage)
    ]


def image_remedy(stage: ImageStage) -> str:
    """Return the remedy for an image that is neither there nor can be built."""
    if not stage.context:
        return "Push it, then launch."
    other = f", or set {stage.when.parameter} to another value" if stage.when else ""
    return f"Install docker, start it and let your user use it{other}."


async def check_build(launch: PlannedLaunch, stage: ImageStage, caller: Caller) -> Observation:
    """Check that an image is in ECR already, or that docker works here and can build it.

    Raises:
        ConsoleError: ECR does not answer.
    """
    tag = launch.text(stage.tag)
    docker = await check_docker() if stage.context else None
    repository = repository_for(launch, stage, caller.account)
    if repository is not None and caller.identity is not None:
        async with aws_session(repository.region) as session:
            try:
                digest = await fetch_digest(session, repository, tag)
            except ConsoleError as error:
                if docker is None or docker.result is not CheckResult.PASSED:
                    return unknown(f"ECR did not answer: {error.message}")
                digest = None
        if digest is not None:
            return passed(f"{repository.name}:{tag} is in ECR, {digest[:19]}….")
    if docker is None:
        return failed(f"{stage.repository}:{tag} is not in ECR, and nothing builds it.")
    if docker.result is CheckResult.PASSED:
        return passed(f"It is built here: {docker.detail}")
    return failed(f"It has to be built here, and {docker.detail}")


def repository_for(launch: PlannedLaunch, stage: ImageStage, account: str) -> Repository | None:
    """Return the repository of an image stage; `None` if it is known only when the launch has begun.

    A repository that the launch's own registry root makes has its name from that root's variables.
    """
    match = OUTPUT_REFERENCE.search(stage.repository)
    if match is None:
        text = launch.text(stage.repository)
        return repository_of(text) or (
            Repository(account, launch.region, text) if account and "." not in text else None
        )
    for maker in launch.stages:
        if maker.id == match[1] and isinstance(maker, TerraformStage):
            name = str(launch.variables(maker).get("repository_name", ""))
            return Repository(account, launch.region, name) if name and account else None
    return None
