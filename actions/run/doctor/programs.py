"""The programs that a launch starts on this machine, with their versions."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from actions.base.errors import ConsoleError, FormatError, RefusedError
from actions.base.files import read_file
from actions.base.process import run_tool
from actions.base.wording import listed
from actions.blueprint.source_files import git_modules, located
from actions.blueprint.stages import HelmStage, TerraformStage
from actions.run.checks.observation import Observation, failed, passed, unknown
from actions.run.doctor.launch import PlannedLaunch
from actions.run.doctor.report import Question
from actions.terraform.backend import require_locks
from actions.terraform.modules import module_calls
from actions.terraform.program import (
    WANTED,
    fetch_version,
    find_program,
    missing_sentence,
    parse_version,
    product_of,
)

OLDEST_TERRAFORM, NEWER_TERRAFORM = (1, 5), (2, 0)
"""The bounds of `required_version` in the program's own roots: at least the first, below the second."""
TERRAFORM_REMEDY = f"Install {WANTED}, and put it on PATH."
STORE_REMEDY = "Install Terraform or OpenTofu 1.10 or later, below 2.0, or launch without a store."

_SECONDS = 20.0
_SHOWN = 3
_COMMAND = re.compile(r'^\s*command\s*=\s*"([\w-]+)"', re.M)


def program_questions(launch: PlannedLaunch | None) -> list[Question]:
    """Return a question for each program that a launch needs; for `None`, for those that any launch may need."""
    if launch is None:
        return [Question("terraform", check_terraform, TERRAFORM_REMEDY)]
    questions = []
    if any(isinstance(stage, TerraformStage) for stage in launch.stages):
        check, remedy = partial(check_terraform, launch.store), STORE_REMEDY if launch.store else TERRAFORM_REMEDY
        questions.append(Question("terraform", check, remedy, is_blocking=True))
    for name, reason in needed_programs(launch).items():
        remedy = f"Install {name} and put it on PATH: {reason}"
        questions.append(Question(name, partial(_check_program, name), remedy, is_blocking=True))
    return questions


async def _check_program(name: str) -> Observation:
    found = shutil.which(name)
    return passed(f"{name} is {found}.") if found else failed(f"{name} is not on PATH.")


async def check_terraform(store: str = "") -> Observation:
    """Check that Terraform or OpenTofu is on PATH in a version that the roots accept.

    Args:
        store: Where the run is replicated to, with Terraform's states; empty for this machine alone.
    """
    program = find_program()
    if program is None:
        return failed(missing_sentence())
    try:
        version = await fetch_version(program)
    except ConsoleError as error:
        return unknown(f"{program} does not report its version: {error.message}")
    return terraform_observation(version, program, store=store)


def terraform_observation(version: str, program: Path, *, store: str = "") -> Observation:
    """Return the result for a version such as `1.9.5`.

    Args:
        version: As the program reports it.
        program: Its path.
        store: See `check_terraform`.
    """
    title = product_of(program)
    try:
        found = parse_version(version)
        if found < OLDEST_TERRAFORM:
            return failed(f"{program} is {title} {version}, older than 1.5.")
        if found >= NEWER_TERRAFORM:
            return failed(f"{program} is {title} {version}; the roots accept versions below 2.0.")
        if store:
            require_locks(found, store, title)
    except FormatError:
        return unknown(f"{program} reports the version {version!r}.")
    except RefusedError as error:
        return failed(error.message, remedy=error.hint)
    return passed(f"{title} {version}, {program}.")


def needed_programs(launch: PlannedLaunch) -> dict[str, str]:
    """Return the programs beside terraform and docker that a launch starts, each with the reason as a sentence."""
    found: dict[str, str] = {}
    for stage in launch.stages:
        if isinstance(stage, TerraformStage):
            for name, reason in _programs_of_root(launch, stage):
                found.setdefault(name, reason)
        elif isinstance(stage, HelmStage):
            found.setdefault("helm", f"the stage {stage.id} installs {stage.chart} with it.")
    return found


def _programs_of_root(launch: PlannedLaunch, stage: TerraformStage) -> Iterator[tuple[str, str]]:
    """Yield the programs that Terraform itself starts for a root: git for modules, exec plugins of providers."""
    folder = located(launch.blueprint.folder, stage.root)
    pinned = {call.source for call in module_calls(folder)}  # their archives are fetched without git
    modules = [name for name in git_modules(launch.blueprint.folder, stage.root) if name not in pinned]
    if modules:
        yield "git", f"terraform init fetches {listed(modules, _SHOWN)} of {stage.root} with it."
    for path in sorted(folder.glob("*.tf")):
        for match in _COMMAND.finditer(read_file(path).decode()):
            yield match[1], f"a provider of {stage.root} starts it."


async def check_docker() -> Observation:
    """Check that a docker client reaches its daemon."""
    if shutil.which("docker") is None:
        return failed("docker is not on PATH.")
    try:
        answer = await run_tool(["docker", "version", "--format", "{{.Server.Version}}"], deadline_seconds=_SECONDS)
    except ConsoleError as error:
        return failed(f"docker does not work here: {error.message}")
    return passed(f"docker {answer.decode(errors='replace').strip()}.")
