"""`eksml-tui doctor`: what a launch needs, checked before anything is paid for."""

from __future__ import annotations

import asyncio
import os
from argparse import Namespace
from typing import TYPE_CHECKING

from actions.base.clock import SystemClock
from actions.base.errors import UsageError
from actions.blueprint.catalogue import Catalogue
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import Binding
from tui.cli.plan import chosen_binding
from tui.cli.tables.output import print_table
from tui.cli.target import ChosenTarget, chosen_target

if TYPE_CHECKING:
    from actions.run.doctor.report import DoctorLine

_FAILED = 1


def run(options: Namespace) -> int:
    """Print the report.

    Returns:
        1 if any check failed, otherwise 0; what is unknown does not count.
    """
    from actions.run.doctor.report import doctor_json, doctor_table, has_failed

    if not options.blueprint and (options.set or options.preset or options.existing_cluster):
        raise UsageError("Parameters need a blueprint.", hint="Write eksml-tui doctor BLUEPRINT name=value.")
    chosen = _launch_of(options) if options.blueprint else None
    target = chosen_target(options)
    os.environ.update(target.environment)  # for boto3
    lines = asyncio.run(_examined(options, target, chosen))
    print_table(
        options.output,
        table=lambda: doctor_table(lines),
        document=lambda: doctor_json(lines, blueprint=options.blueprint),
        rows="checks",
    )
    return _FAILED if has_failed(lines) else 0


def _launch_of(options: Namespace) -> tuple[Blueprint, Binding]:
    blueprint = Catalogue.usual(options.blueprints).find(options.blueprint)
    binding = chosen_binding(options, blueprint)
    return blueprint, binding


async def _examined(
    options: Namespace, chosen: ChosenTarget, launch: tuple[Blueprint, Binding] | None
) -> list[DoctorLine]:
    from actions.run.doctor.examine import examination, examine_launch, examine_machine

    if launch is not None:
        region = launch[1].text("region", launch[0].cluster.region)
        async with examination(chosen.target, region=region, clock=SystemClock()) as around:
            return await examine_launch(around, *launch, store=options.store)
    blueprints = Catalogue.usual(options.blueprints).list()
    default = blueprints[0].cluster.region if blueprints else ""
    async with examination(chosen.target, region=chosen.region, clock=SystemClock(), default_region=default) as around:
        return await examine_machine(around, blueprints)
