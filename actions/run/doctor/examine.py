"""The doctor: all checks of a launch, or of this machine with a line for each blueprint. Changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import date
from pathlib import Path

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock
from actions.base.errors import ConfigError, ConsoleError
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import Binding, bind
from actions.blueprint.render import namespace_of
from actions.blueprint.version_rules import require_together, undeclared_pairs
from actions.cluster.auth.kubeconfig import ClusterTarget, load_context, parse_context_name
from actions.cluster.objects.client import Discovery
from actions.run.checks.external import SessionPool, pooled
from actions.run.checks.observation import failed, passed, unknown
from actions.run.context.access import ClusterConnection
from actions.run.doctor.account import Caller, account_questions, capacity_questions, credential_lines, fetch_caller
from actions.run.doctor.cluster import ClusterReach, cluster_questions, reach, reach_lines
from actions.run.doctor.launch import PlannedLaunch
from actions.run.doctor.names import name_questions, run_questions
from actions.run.doctor.programs import program_questions
from actions.run.doctor.report import DoctorLine, Question, line_of, summary
from actions.run.doctor.rights import policy_questions
from actions.run.doctor.sources import image_questions, module_questions, operator_questions
from actions.run.state.records import CheckResult


class Examination(msgspec.Struct, frozen=True):
    """The surroundings of all checks: the caller in AWS, the present cluster, the clock."""

    caller: Caller
    cluster: ClusterReach
    target: ClusterTarget
    """The present cluster."""
    region: str
    clock: Clock
    runs: Path | None = None
    """The folder of all runs, if not the usual one."""


@asynccontextmanager
async def examination(
    target: ClusterTarget, *, region: str, clock: Clock, runs: Path | None = None, default_region: str = ""
) -> AsyncIterator[Examination]:
    """Ask STS and the present cluster who is there; close the sessions at the end of the context.

    Args:
        target: The present cluster.
        region: Empty for that of profile and environment.
        clock: Time.
        runs: The folder of all runs, if not the usual one.
        default_region: If no region is configured either.
    """
    pool = SessionPool()
    try:
        with pooled(pool):
            caller, cluster = await asyncio.gather(fetch_caller(region, otherwise=default_region), reach(target))
            try:
                yield Examination(caller, cluster, target, caller.assumed_region or region, clock, runs)
            finally:
                if cluster.session is not None:
                    await cluster.session.aclose()
    finally:
        pool.close()


async def examine_launch(
    around: Examination, blueprint: Blueprint, binding: Binding, *, store: str = ""
) -> list[DoctorLine]:
    """Return all lines of a launch.

    Args:
        around: The surroundings.
        blueprint: As it was loaded.
        binding: The values of its parameters.
        store: Where the run would be replicated to; empty for this machine alone.
    """
    launch = planned(blueprint, binding, around.target, store=store)
    now = around.clock.now()
    lines = [*_choice_lines(blueprint, binding, now.date()), *await answers(program_questions(launch))]
    if around.caller.identity is None and not launch.works_in_account:
        lines.append(line_of("credentials", passed("There are none in AWS, and the launch needs none."), ""))
    else:
        seconds = launch.high_seconds
        lines += credential_lines(around.caller, now=now, needed_seconds=seconds, is_needed=launch.works_in_account)
    if launch.makes_cluster:
        made = f"The run makes {launch.cluster} and is its administrator; the present cluster is not touched."
        lines.append(line_of("cluster", passed(made), ""))
    else:
        lines += reach_lines(around.cluster, is_needed=True)
        lines += await answers(cluster_questions(around.cluster, launch, namespace=launch.namespace))
    rights = policy_questions(launch, around.caller, launch.region) if launch.works_in_account else []
    return [*lines, *await answers([*rights, *_own_questions(around, launch)])]


async def examine_machine(around: Examination, blueprints: Sequence[Blueprint]) -> list[DoctorLine]:
    """Return the general lines, and one line for each blueprint with the values that it begins with."""
    session = around.cluster.session
    namespace = around.target.namespace or (session.namespace if session is not None else "") or "default"
    lines = await answers(program_questions(None))
    lines += credential_lines(around.caller, now=around.clock.now())
    lines += reach_lines(around.cluster, is_needed=False)
    questions = cluster_questions(around.cluster, None, namespace=namespace)
    lines += await answers([*questions, *policy_questions(None, around.caller, around.region)])
    return [*lines, *[await _blueprint_line(around, blueprint) for blueprint in blueprints]]


async def answers(questions: Sequence[Question]) -> list[DoctorLine]:
    """Ask all questions at once; return their lines in the same order."""
    return list(await asyncio.gather(*(question.answer() for question in questions)))


def _choice_lines(blueprint: Blueprint, binding: Binding, day: date) -> list[DoctorLine]:
    """Return the line of parameters that exclude each other; none of them concerns a rehearsal or a cluster that is."""
    try:
        require_together(blueprint, binding, day)
        pairs = [] if binding.existing_cluster else undeclared_pairs(blueprint, binding, binding.text("eks_version"))
    except ConsoleError as error:
        return [line_of("parameters", failed(error.message), error.hint or "Choose other values.")]
    if pairs:
        return [line_of("parameters", unknown(" ".join(pairs)), "Choose versions that are declared for each other.")]
    return [line_of("parameters", passed("They can be used together."), "")]


def planned(blueprint: Blueprint, binding: Binding, target: ClusterTarget, *, store: str = "") -> PlannedLaunch:
    """Return a launch as the checks read it.

    Args:
        blueprint: As it was loaded.
        binding: The values of its parameters.
        target: The present cluster; its namespace is empty for that of the context, or the blueprint's.
        store: Where the run would be replicated to; empty for this machine alone.
    """
    launch = PlannedLaunch(
        blueprint=blueprint.under(binding.preset),
        binding=binding,
        wanted_namespace=namespace_of(blueprint, binding, target),
        original=blueprint,
        store=store,
    )
    if launch.makes_cluster:
        return launch
    with suppress(ConfigError):  # a cluster that cannot be reached is a check of its own
        return replace(launch, present=parse_context_name(load_context(target).context))
    return launch


def _own_questions(around: Examination, launch: PlannedLaunch) -> list[Question]:
    """Return the questions that depend on the blueprint alone, neither on machine nor credentials."""
    session = None if launch.makes_cluster else around.cluster.session
    connection = ClusterConnection(session, Discovery(session)) if session is not None else None
    return [
        *module_questions(launch),
        *operator_questions(launch, connection),
        *questions_in_account(launch, around.caller, around.clock),
        *run_questions(launch, around.runs),
    ]


def questions_in_account(
    launch: PlannedLaunch, caller: Caller, clock: Clock, *, with_capacity: bool = True
) -> list[Question]:
    """Return the questions about what a launch needs of the account and its registries.

    Args:
        launch: The launch.
        caller: Of the credentials.
        clock: For times of reservations.
        with_capacity: With zone, offering and reservation.
    """
    return [
        *image_questions(launch, caller),
        *(capacity_questions(launch, caller, clock) if with_capacity else ()),
        *account_questions(launch, caller),
        *name_questions(launch, caller),
    ]


async def _blueprint_line(around: Examination, blueprint: Blueprint) -> DoctorLine:
    remedy = f"Run eksml-tui doctor {blueprint.id}."
    try:
        lines = await answers(_own_questions(around, planned(blueprint, bind(blueprint, {}), around.target)))
    except ConsoleError as error:
        return line_of(blueprint.id, unknown(error.message), error.hint or remedy)
    bad = [line.check for line in lines if line.result is CheckResult.FAILED]
    unasked = [line.check for line in lines if line.result is CheckResult.UNKNOWN]
    named = f" ({', '.join(bad or unasked)})" if bad or unasked else ""
    detail = f"{summary(lines)}{named}."
    return line_of(blueprint.id, failed(detail) if bad else unknown(detail) if unasked else passed(detail), remedy)
