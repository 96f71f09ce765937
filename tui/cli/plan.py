"""`eksml-tui plan`: stages and cost of a launch, and what machine, cluster and account answer to it."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from contextlib import suppress
from typing import TYPE_CHECKING

from actions.base.clock import SystemClock
from actions.base.errors import ConfigError, ConsoleError
from actions.base.executors import beside
from actions.base.files import expanded
from actions.blueprint.catalogue import Catalogue
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import Binding, bind_words, makes_cluster
from actions.blueprint.render import namespace_note
from actions.blueprint.version_rules import choice_notes, require_together
from actions.fleet.prices import PriceBook
from actions.run.capacity_survey import capacity_request, has_credentials, survey_capacity
from tui.cli.manifests import write_manifests
from tui.cli.run_verbs.limits import watchdog_lines
from tui.cli.tables.output import formatted
from tui.cli.target import aws_environment, chosen_target
from tui.settings.settings import usual_preset

if TYPE_CHECKING:
    from actions.blueprint.launch_plan import LaunchPlan
    from actions.run.doctor.report import DoctorLine
    from actions.run.state.records import Limits


def run(options: Namespace) -> int:
    """Print the plan; return 0. What the checks find changes no exit code: `doctor` is for that."""
    from actions.blueprint.launch_plan import plan_json, plan_table

    blueprint = Catalogue.usual(options.blueprints).find(options.blueprint)
    binding = chosen_binding(options, blueprint)
    now = SystemClock().now()
    require_together(blueprint, binding, now.date())
    plan = priced_plan(options, blueprint, binding)
    limits = planned_limits(options, plan)
    if options.manifests:
        write_manifests(options, blueprint, binding)
    may_ask = is_asked(options, blueprint, binding, plan)
    if may_ask and not options.demo:
        os.environ.update(aws_environment(options))  # for boto3
    if options.output == "table":
        sys.stdout.write(plan_table(plan))
        sys.stdout.flush()  # the answers may take seconds
    sentences, lines = asyncio.run(examine(options, blueprint, binding, limits)) if may_ask else ((), [])
    if may_ask and not options.demo:
        lines = [*lines, *watchdog_lines(options)]
    limited = limit_notes(limits, plan, blueprint.under(binding.preset))
    warning = _credentials_note(options, plan, lines)
    notes = [note for note in (warning, *choice_notes(blueprint, binding, now.date()), *sentences, *limited) if note]
    if options.output != "table":
        document = plan_json(plan, notes, checks=_data(lines) if may_ask else None)
        sys.stdout.write(formatted(options.output, document, rows="stages"))
        return 0
    sys.stdout.write("".join(f"\n{line}\n" for line in (*notes, _section(lines, blueprint.id)) if line))
    return 0


def priced_plan(options: Namespace, blueprint: Blueprint, binding: Binding) -> LaunchPlan:
    """Return the plan at the prices of the cluster's region: that of its context, if it is there and names one."""
    from actions.blueprint.launch_plan import plan_of
    from actions.cluster.auth.kubeconfig import load_context, parse_context_name

    region = ""
    if binding.existing_cluster and not options.demo:
        with suppress(ConfigError):  # without a kubeconfig, which is a check of its own
            region = parse_context_name(load_context(chosen_target(options).target).context).region
    return plan_of(blueprint, binding, PriceBook.usual(), region=region)


def is_asked(options: Namespace, blueprint: Blueprint, binding: Binding, plan: LaunchPlan) -> bool:
    """Return whether a launch is checked: a simulated one if it goes into a cluster that is there."""
    is_simulated = options.demo or plan.is_cost_simulated
    return not (options.no_checks or (is_simulated and makes_cluster(blueprint, binding)))


def chosen_binding(options: Namespace, blueprint: Blueprint) -> Binding:
    """Return the blueprint with the parameters on the command line, and the preset that the console would take, too.

    Raises:
        ParameterError, UnknownNameError: As `bind_words`.
    """
    preset = options.preset or usual_preset(blueprint.presets, is_demo=options.demo)
    return bind_words(blueprint, options.set, preset=preset, existing_cluster=options.existing_cluster)


def planned_limits(options: Namespace, plan: LaunchPlan) -> Limits:
    """Return the limits of a launch, by the command line and config.yaml.

    Raises:
        UsageError: They cannot be read, or would be reached at once.
    """
    from actions.run.limits.at_launch import require_possible
    from actions.run.limits.options import limits_of, require_limit
    from tui.cli.run_verbs.limits import texts_of

    texts = texts_of(options, "limit")
    limits = limits_of(texts, now=SystemClock().now())
    if any(one.setting.name == "limit_action" and one.source.startswith("flag") for one in options.settled):
        require_limit(texts, limits)
    require_possible(limits, plan)
    return limits


def limit_notes(limits: Limits, plan: LaunchPlan, blueprint: Blueprint) -> tuple[str, ...]:
    """Return the limits of a launch and what they mean for it; empty without any. `blueprint` is under its preset."""
    from actions.run.limits.at_launch import launch_notes

    return launch_notes(limits, plan, blueprint, now=SystemClock().now())


def _credentials_note(options: Namespace, plan: LaunchPlan, lines: list[DoctorLine]) -> str:
    """Return a sentence on the end of the credentials; empty without need of one."""
    is_end_known = plan.is_cost_simulated or any(line.check == "end of credentials" for line in lines)
    return "" if is_end_known else credentials_warning(options.profile, plan.high_seconds)


def credentials_warning(profile: str, seconds: float) -> str:
    """Return a sentence if the AWS credentials here are known to end within `seconds`; without any request."""
    file = expanded(os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config")
    if not (os.environ.get("AWS_CREDENTIAL_EXPIRATION") or file.is_file()):
        return ""  # botocore takes a while to start
    from actions.cloud.account import end_sentence, fetch_end
    from actions.cloud.aws_session import AwsSession

    session = AwsSession(profile=profile, threads=1)
    try:
        ends_at = asyncio.run(fetch_end(session))
    except ConsoleError as error:
        return error.sentence()
    finally:
        session.close()
    return end_sentence(ends_at, seconds=seconds, now=SystemClock().now())


async def examine(
    options: Namespace, blueprint: Blueprint, binding: Binding, limits: Limits, *, seconds: float = 0.0
) -> tuple[tuple[str, ...], list[DoctorLine]]:
    """Return sentences on namespace, zone and reservation, and on the cost in a cluster that is there, and the lines.

    Args:
        options: The cluster, for a launch into it.
        blueprint: As it was loaded.
        binding: The values of its parameters.
        limits: Of the launch.
        seconds: For all checks together; 0 for those of a plan.

    Raises:
        ConfigError, MissingError: Zone or reservation cannot be used.
    """
    from actions.run.checks.external import SessionPool, pooled
    from actions.run.doctor.survey import SURVEY_SECONDS, LaunchSurvey

    target = chosen_target(options).target
    pool = SessionPool()
    survey = LaunchSurvey(
        target,
        blueprint,
        binding,
        clock=SystemClock(),
        pool=pool,
        is_simulated=bool(options.demo),
        store=options.store,
        has_budget=bool(limits.budget_usd),
    )
    try:
        with pooled(pool):
            async with beside(survey.run(seconds=seconds or SURVEY_SECONDS)) as asking:
                capacity = "" if options.demo else await _capacity(blueprint, binding)
                await asking
    finally:
        pool.close()
    return (namespace_note(blueprint, binding, target), capacity, survey.cost_text), list(survey.lines)


async def _capacity(blueprint: Blueprint, binding: Binding) -> str:
    """Zone and reservation of a launch, in a sentence; empty if it asks for none."""
    request = capacity_request(blueprint, binding)
    if request is None:
        return ""
    if not has_credentials():
        return (
            f"Zone and reservation for {request.instance_type} were not looked up: no AWS credentials are named here."
        )
    return await survey_capacity(request, now=SystemClock().now())


def _section(lines: list[DoctorLine], blueprint: str) -> str:
    """Return the lines that have not passed, under their counts; empty if nothing was asked."""
    if not lines:
        return ""
    from actions.run.doctor.report import doctor_rows, summary
    from actions.run.state.records import CheckResult

    rows = doctor_rows([line for line in lines if line.result is not CheckResult.PASSED])
    return "\n".join([f"checks  {summary(lines)}; each of them: eksml-tui doctor {blueprint}", *rows])


def _data(lines: list[DoctorLine]) -> list[dict[str, object]]:
    from actions.run.doctor.report import lines_data

    return lines_data(lines)
