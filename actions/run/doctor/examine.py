"""The doctor: all checks of a launch, or of this machine with a line for each blueprint. Changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path

import msgspec

from actions.base.clock import Clock
from actions.base.errors import ConsoleError
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import Binding, bind
from actions.blueprint.version_rules import require_together
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.objects.client import Discovery
from actions.run.checks.observation import failed, passed, unknown
from actions.run.context.access import ClusterConnection
from actions.run.doctor.account import Caller, account_lines, capacity_lines, credential_lines, fetch_caller
from actions.run.doctor.cluster import ClusterReach, cluster_lines, reach
from actions.run.doctor.launch import PlannedLaunch
from actions.run.doctor.names import name_lines, run_line
from actions.run.doctor.programs import program_lines
from actions.run.doctor.report import DoctorLine, line_of, summary
from actions.run.doctor.sources import image_lines, operator_lines
from actions.run.state.records import CheckResult


class Examination(msgspec.Struct, frozen=True):
    """The surroundings of all checks: the caller in AWS, the present cluster, the clock."""

    caller: Caller
    cluster: ClusterReach
    namespace: str
    clock: Clock
    runs: Path | None = None
    """The folder of all runs, if not the usual one."""


@asynccontextmanager
async def examination(
    target: ClusterTarget, *, region: str, clock: Clock, runs: Path | None = None
) -> AsyncIterator[Examination]:
    """Ask STS and the present cluster who is there; close the session at the end of the context."""
    caller = await fetch_caller(region)
    cluster = await reach(target)
    try:
        yield Examination(caller, cluster, target.namespace, clock, runs)
    finally:
        if cluster.session is not None:
            await cluster.session.aclose()


async def examine_launch(around: Examination, blueprint: Blueprint, binding: Binding) -> list[DoctorLine]:
    """Return all lines of a launch.

    Args:
        around: The surroundings.
        blueprint: As it was loaded.
        binding: The values of its parameters.
    """
    launch = _planned(around, blueprint, binding)
    now = around.clock.now()
    lines = [*_choice_lines(blueprint, binding, now.date()), *await program_lines(launch)]
    lines += credential_lines(around.caller, now=now, needed_seconds=launch.high_seconds)
    if launch.makes_cluster:
        made = f"The run makes {launch.cluster} and is its administrator; the present cluster is not touched."
        lines.append(line_of("cluster", passed(made), ""))
    else:
        lines += await cluster_lines(around.cluster, launch, namespace=launch.namespace)
    return [*lines, *await _own_lines(around, launch)]


async def examine_machine(around: Examination, blueprints: Sequence[Blueprint]) -> list[DoctorLine]:
    """Return the general lines, and one line for each blueprint with the values that it begins with."""
    session = around.cluster.session
    namespace = around.namespace or (session.namespace if session is not None else "") or "default"
    lines = await program_lines(None)
    lines += credential_lines(around.caller, now=around.clock.now())
    lines += await cluster_lines(around.cluster, None, namespace=namespace)
    return [*lines, *[await _blueprint_line(around, blueprint) for blueprint in blueprints]]


def _choice_lines(blueprint: Blueprint, binding: Binding, day: date) -> list[DoctorLine]:
    """Return the line of parameters that exclude each other; none of them concerns a rehearsal or a cluster that is."""
    try:
        require_together(blueprint, binding, day)
    except ConsoleError as error:
        return [line_of("parameters", failed(error.message), error.hint or "Choose other values.")]
    return [line_of("parameters", passed("They can be used together."), "")]


def _planned(around: Examination, blueprint: Blueprint, binding: Binding) -> PlannedLaunch:
    return PlannedLaunch(blueprint=blueprint.under(binding.preset), binding=binding, wanted_namespace=around.namespace)


async def _own_lines(around: Examination, launch: PlannedLaunch) -> list[DoctorLine]:
    """Return the lines that depend on the blueprint alone, neither on machine nor credentials."""
    session = None if launch.makes_cluster else around.cluster.session
    connection = ClusterConnection(session, Discovery(session)) if session is not None else None
    return [
        *await operator_lines(launch, connection),
        *await image_lines(launch, around.caller),
        *await capacity_lines(launch, around.caller, around.clock),
        *await account_lines(launch, around.caller, around.clock),
        *await name_lines(launch, around.caller),
        await run_line(launch, around.runs),
    ]


async def _blueprint_line(around: Examination, blueprint: Blueprint) -> DoctorLine:
    remedy = f"Run eksml-tui doctor {blueprint.id}."
    try:
        launch = _planned(around, blueprint, bind(blueprint, {}))
        lines = await _own_lines(around, launch)
    except ConsoleError as error:
        return line_of(blueprint.id, unknown(error.message), error.hint or remedy)
    bad = [line.check for line in lines if line.result is CheckResult.FAILED]
    unasked = [line.check for line in lines if line.result is CheckResult.UNKNOWN]
    named = f" ({', '.join(bad or unasked)})" if bad or unasked else ""
    detail = f"{summary(lines)}{named}."
    return line_of(blueprint.id, failed(detail) if bad else unknown(detail) if unasked else passed(detail), remedy)
