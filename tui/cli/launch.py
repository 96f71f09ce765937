"""`eksml-tui launch`: a run without the console, after the same checks and questions."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from actions.base.clock import SystemClock
from actions.base.decoding import json_document
from actions.base.errors import RefusedError, UsageError
from actions.base.readonly import refuse_if_readonly
from actions.blueprint.catalogue import Catalogue
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import Binding
from actions.blueprint.version_rules import require_together
from tui.cli.plan import chosen_binding, examine, is_asked, limit_notes, planned_limits, priced_plan
from tui.cli.run_verbs.limits import watchdog_lines
from tui.cli.target import ChosenTarget, asked, chosen_target

if TYPE_CHECKING:
    from actions.run.doctor.report import DoctorLine


def run(options: Namespace) -> int:
    """Print the plan, ask, and launch; print the id of the run.

    Raises:
        ConsoleError: It cannot be launched, or was not confirmed; nothing was made.
    """
    from actions.blueprint.launch_plan import loss_without_store, plan_table
    from actions.run.client import start_runner
    from actions.run.doctor.cluster import is_alone
    from actions.run.doctor.report import require_passed
    from actions.run.doctor.survey import LAUNCH_SECONDS
    from actions.run.launch import LaunchOrder, launch_run

    refuse_if_readonly(f"the launch of {options.blueprint}")
    blueprint = Catalogue.usual(options.blueprints).find(options.blueprint)
    binding = chosen_binding(options, blueprint)
    require_together(blueprint, binding, SystemClock().now().date())
    plan = priced_plan(options, blueprint, binding)
    limits = planned_limits(options, plan)
    if binding.preset and not options.preset:
        _say(f"The preset is {binding.preset}, as the cluster is the embedded one. For another: --preset NAME.\n")
    _say(plan_table(plan).rstrip("\n"))
    for note in limit_notes(limits, plan, blueprint.under(binding.preset)):
        _say(note)
    if not (options.yes or sys.stdin.isatty()):
        raise UsageError("A launch costs money, and without a terminal it cannot be confirmed.", hint="Add --yes.")
    chosen = chosen_target(options)
    os.environ.update(chosen.environment)  # for boto3
    sentences: tuple[str, ...] = ()
    lines: list[DoctorLine] = []
    if is_asked(options, blueprint, binding, plan):
        sentences, lines = asyncio.run(examine(options, blueprint, binding, limits, seconds=LAUNCH_SECONDS))
        lines += [] if options.demo else watchdog_lines(options)
        require_passed(lines, waived=options.waive, waiver=_waiver)
    if not (options.store or options.demo or plan.is_cost_simulated):
        sentences += (loss_without_store(existing_cluster=binding.existing_cluster, is_alone=is_alone(lines)),)
    for sentence in filter(None, sentences):
        _say(sentence)
    require = partial(_require_no_other_run, blueprint, binding, chosen, waived=options.waive)
    require()
    if not options.yes:
        is_simulated = bool(options.demo) or plan.is_cost_simulated
        made = binding.text("cluster_name", blueprint.cluster.name)
        place = _place(chosen) if binding.existing_cluster else made
        _require_yes(blueprint, name="" if is_simulated else place)
    order = LaunchOrder(
        blueprint,
        binding,
        target=chosen.target,
        environment=chosen.environment,
        clock=SystemClock(),
        auto_approve=options.auto_approve,
        store_url=options.store,
        limits=limits,
    )
    folder = asyncio.run(launch_run(order, require=require, say=_say))
    runner = start_runner(folder, environment=chosen.environment)
    _print_run(options.output, folder, blueprint, pid=runner.pid if runner else None)
    return 0


def _print_run(output: str, folder: Path, blueprint: Blueprint, *, pid: int | None) -> None:
    if output == "json":
        document = {"id": folder.name, "folder": str(folder), "blueprint": blueprint.id, "pid": pid}
        sys.stdout.write(json_document(document))
    else:
        sys.stdout.write(f"{folder.name}\n")
        _say(f"Watch it with: eksml-tui --run {folder.name}   or: eksml-tui runs show {folder.name}")


def _waiver(names: str) -> str:
    """Return the options that waive checks."""
    return " ".join(f"--waive '{name}'" for name in names.split(","))


def _require_no_other_run(
    blueprint: Blueprint, binding: Binding, chosen: ChosenTarget, *, waived: Sequence[str]
) -> None:
    """Refuse a launch in the place of a run at work, in a demo and without other checks too: it asks this machine."""
    from actions.run.doctor.examine import planned
    from actions.run.doctor.names import OTHER_RUNS, require_no_other_run

    try:
        require_no_other_run(planned(blueprint, binding, chosen.target), waived=waived)
    except RefusedError as error:
        hint = f"{error.hint} To launch anyway: {_waiver(OTHER_RUNS)}."
        raise RefusedError(error.message, hint=hint) from error


def _place(chosen: ChosenTarget) -> str:
    """Return the name of the present cluster, by its context."""
    from actions.cluster.auth.kubeconfig import load_context, parse_context_name

    return parse_context_name(load_context(chosen.target).context).cluster


def _require_yes(blueprint: Blueprint, *, name: str) -> None:
    """Ask for a yes, or for the name of the cluster where the launch is paid for."""
    if not asked(f"\nLaunch {blueprint.id}{' for real' if name else ''}?", name=name):
        raise RefusedError("Nothing was launched.")


def _say(text: str) -> None:
    """Print to stderr: stdout has the id alone, for a script."""
    sys.stderr.write(f"{text}\n")
