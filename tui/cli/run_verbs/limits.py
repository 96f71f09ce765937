"""Limits of a run on the command line: their options, and `eksml-tui runs limit`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actions.run.doctor.report import DoctorLine
    from actions.run.limits.options import LimitTexts

NO_LIMITS = "--none"


def limit_options(command: argparse.ArgumentParser, *, dest: str, is_change: bool = False) -> None:
    """Add the options of limits to a command.

    Args:
        command: The command.
        dest: Prefix of the names of their values: those of a launch have defaults in config.yaml.
        is_change: They change the limits of a run: what is not given stays, `none` takes one away.
    """
    group = command.add_argument_group("limits", f"{_MEANING}\n{_CHANGE}" if is_change else _MEANING)
    group.add_argument(
        "--until", dest=f"{dest}_until", default="", metavar="TIME",
        help="end at 2026-11-20T22:30:00Z, 22:30 (the next one, UTC) or +8h",
    )  # fmt: skip
    group.add_argument(
        "--budget", dest=f"{dest}_budget", default="", metavar="USD", help="end when this much has been spent"
    )
    group.add_argument(
        "--max-hourly",
        dest=f"{dest}_max_hourly",
        default="",
        metavar="USD",
        help="end when it costs more than this an hour",
    )
    for name, what in (("credentials", "the AWS credentials end"), ("capacity", "the capacity block ends")):
        group.add_argument(
            f"--before-{name}-end",
            dest=f"{dest}_before_{name}_end",
            action=argparse.BooleanOptionalAction if is_change else "store_true",
            default=None,
            help=f"end in time before {what}",
        )
    group.add_argument(
        "--idle", dest=f"{dest}_idle", default="", metavar="TIME",
        help="end when no accelerator was used for so long: 30m, 1h",
    )  # fmt: skip
    group.add_argument(
        "--below", dest=f"{dest}_below", default="", metavar="LOAD",
        help="an accelerator with less load is not used (default: 5%%)",
    )  # fmt: skip
    group.add_argument(
        "--at-limit",
        dest=f"{dest}_action",
        choices=("park", "teardown"),
        default="",
        help="how it ends" if is_change else "how it ends (default: park)",
    )
    group.add_argument(
        "--watchdog", dest=f"{dest}_watchdog", default="", metavar="TIME",
        help="have a CronJob in the cluster stop the run's jobs after this long without a heartbeat: 1h, 90m",
    )  # fmt: skip
    if is_change:
        group.add_argument(NO_LIMITS, dest="new_none", action="store_true", help="remove all limits")


_MEANING = "At the first limit that is reached the run ends: it is parked, or torn down."
_CHANGE = "Limits that are not given stay as they are; the word none removes one."


def texts_of(options: argparse.Namespace, dest: str) -> LimitTexts:
    """Return the limits that the options state, also by config.yaml."""
    from actions.run.limits.options import FLAGS, LimitTexts

    stated: dict[str, Any] = {
        name: getattr(options, f"{dest}_{'action' if name == 'at_limit' else name}", None)
        for name in LimitTexts.__struct_fields__
    }
    texts = {name: f"{value:.10g}" if isinstance(value, float) else str(value or "") for name, value in stated.items()}
    return LimitTexts(**texts | {name: stated[name] for name in FLAGS})


def run_limit(options: argparse.Namespace) -> int:
    """Change the limits of a run; without any option, print them.

    Raises:
        UsageError: One of them cannot be read, or `--none` has company.
        RefusedError: The run is torn down.
    """
    from msgspec.structs import replace

    from actions.base.clock import SystemClock
    from actions.base.errors import UsageError
    from actions.run.client import find_run, load_run, set_limits
    from actions.run.limits.options import limits_of, limits_text, reach_text, require_limit
    from actions.run.report import limits_json
    from actions.run.state.records import Limits
    from tui.cli.tables.output import print_table
    from tui.cli.target import aws_environment

    folder = find_run(options.run)
    texts = texts_of(options, "new")
    known = load_run(folder).limits
    if options.new_none and texts.is_given:
        raise UsageError("--none removes all limits; it cannot be combined with another limit.")
    if texts.is_given or options.new_none:
        clock = SystemClock()
        known = Limits() if options.new_none else limits_of(texts, now=clock.now(), known=known)
        require_limit(texts, known)
        environment = {} if options.demo else aws_environment(options)
        if load_run(folder).store:
            from tui.cli.run_verbs.remote_runs import note_if_taken

            note_if_taken(folder, environment)
        warning = set_limits(folder, known, clock=clock, environment=environment)
        if warning:
            sys.stderr.write(f"eksml-tui: {warning}\n")
    now = SystemClock().now().timestamp()
    reach = reach_text(known)
    print_table(
        options.output,
        table=lambda: f"Limits of run {folder.name}: {limits_text(known)}.\n" + (f"{reach}\n" if reach else ""),
        document=lambda: limits_json(replace(load_run(folder), limits=known), now=now),
    )
    return 0


def watchdog_lines(options: argparse.Namespace) -> list[DoctorLine]:
    """Return the check of the watchdog's image, by a request to its registry; none for a launch without a watchdog."""
    import asyncio

    from actions.base.own_images import PUBLIC_REGISTRY, PYTHON, own_image
    from actions.run.checks.external import check_image
    from actions.run.checks.observation import unknown
    from actions.run.doctor.report import line_of

    if not getattr(options, "limit_watchdog", ""):
        return []
    image = own_image(PYTHON)
    if image.startswith(f"{PUBLIC_REGISTRY}/"):
        found = asyncio.run(check_image(image, has_login=False))
    else:  # nodes have logins that this machine has not, and a pull-through cache has an image after the first pull
        found = unknown(f"{image} is not checked: it is in a registry of your own.")
    return [
        line_of(
            "image of the watchdog", found, f"Make sure that the cluster's nodes can pull {image}, or omit --watchdog."
        )
    ]
