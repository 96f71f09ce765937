"""`eksml-tui blueprints`, `validate` and `plan`: the catalogue, its checks, and the cost of a launch."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from datetime import datetime
from pathlib import Path

import msgspec

from actions.base.clock import SystemClock
from actions.base.errors import ConsoleError
from actions.blueprint.catalogue import FILE_NAME, Catalogue, validate
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import Binding, assignments, bind, bounds_of
from actions.blueprint.version_rules import require_together, support_note
from actions.fleet.prices import PriceBook
from actions.run.capacity_survey import capacity_request, has_credentials, survey_capacity

BAD_FILE = 2
"""Exit code for a blueprint with a mistake."""


def run(options: Namespace) -> int:
    """Run one of the three commands; return its exit code."""
    match options.command:
        case "blueprints":
            return _show(options) if options.id else _list(options)
        case "validate":
            return _validate(options)
        case _:
            return _plan(options)


def _list(options: Namespace) -> int:
    blueprints, unreadable = Catalogue.usual(options.blueprints).read()
    if options.output == "json":
        _json([{"id": b.id, "title": b.title, "summary": b.summary, "folder": str(b.folder)} for b in blueprints])
    else:
        width = max((len(blueprint.id) for blueprint in blueprints), default=0)
        for blueprint in blueprints:
            sys.stdout.write(f"{blueprint.id:<{width}}  {blueprint.title}\n")
    for broken in unreadable:
        sys.stderr.write(f"eksml-tui: {broken.error.sentence()}\n")
    return BAD_FILE if unreadable else 0


def _show(options: Namespace) -> int:
    blueprint = Catalogue.usual(options.blueprints).find(options.id)
    if options.output == "json":
        _json(_described(blueprint))
        return 0
    write = sys.stdout.write
    write(f"{blueprint.id}: {blueprint.title}\n{blueprint.summary.strip()}\n\nstages\n")
    for stage in blueprint.stages:
        write(f"  {stage.id:<12} {stage.kind:<11} {stage.title}\n")
    write("\nparameters\n")
    for name, parameter in blueprint.parameters.items():
        unit = f" {parameter.unit}" if parameter.unit else ""
        write(f"  {name:<24} {parameter.default!s:<24} {bounds_of(parameter)}{unit}\n")
    write("\npresets\n")
    for name, preset in blueprint.presets.items():
        write(f"  {name:<12} {preset.title}\n")
    return 0


def _described(blueprint: Blueprint) -> object:
    return {
        "id": blueprint.id,
        "title": blueprint.title,
        "summary": blueprint.summary.strip(),
        "stages": [{"id": s.id, "kind": s.kind, "title": s.title, "needs": s.needs} for s in blueprint.stages],
        "parameters": {
            name: {"type": p.type.value, "default": p.default, "accepts": bounds_of(p), "unit": p.unit, "help": p.help}
            for name, p in blueprint.parameters.items()
        },
        "presets": {name: preset.set for name, preset in blueprint.presets.items()},
    }


def _validate(options: Namespace) -> int:
    """Check folders. Of several, those that hold no blueprint at all are passed over, but never every one."""
    others = [folder for folder in options.folder if folder.is_dir() and not (folder / FILE_NAME).exists()]
    folders = [folder for folder in options.folder if folder not in others] or options.folder
    errors = [error for folder in folders for error in validate(folder)]
    for error in errors:
        sys.stderr.write(f"eksml-tui: {error.sentence()}\n")
    if not errors:
        sys.stdout.write("".join(f"{folder}: good.\n" for folder in folders))
        sys.stdout.write("".join(f"{folder}: not a blueprint, it has no {FILE_NAME}.\n" for folder in others))
    return BAD_FILE if errors else 0


def _plan(options: Namespace) -> int:
    from actions.blueprint.launch_plan import plan_json, plan_of, plan_table

    blueprint = Catalogue.usual(options.blueprints).find(options.blueprint)
    binding = bind(
        blueprint, assignments(options.set), preset=options.preset, existing_cluster=options.existing_cluster
    )
    now = SystemClock().now()
    require_together(blueprint, binding, now.date())
    plan = plan_of(blueprint, binding, PriceBook.usual())
    if options.output == "json":
        sys.stdout.write(plan_json(plan))
        return 0
    sys.stdout.write(plan_table(plan))
    preset = blueprint.presets.get(binding.preset)
    is_rehearsal = preset is not None and preset.simulate_terraform
    notes = (
        "" if is_rehearsal else credentials_warning(options.profile, plan.high_seconds),
        support_note(blueprint, binding, now.date()),
        _capacity(blueprint, binding, now),
    )
    sys.stdout.write("".join(f"\n{line}\n" for line in notes if line))
    return 0


def credentials_warning(profile: str, seconds: float) -> str:
    """Return a sentence if the AWS credentials here are known to end within `seconds`; without any request."""
    file = Path(os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config").expanduser()
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


def _capacity(blueprint: Blueprint, binding: Binding, now: datetime) -> str:
    """Zone and reservation of a launch, in a sentence; empty if it asks for none.

    Raises:
        ConfigError, MissingError: They cannot be used.
    """
    request = capacity_request(blueprint, binding)
    if request is None:
        return ""
    if not has_credentials():
        return (
            f"Zone and reservation for {request.instance_type} were not looked up: no AWS credentials are named here."
        )
    return asyncio.run(survey_capacity(request, now=now))


def _json(value: object) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")
