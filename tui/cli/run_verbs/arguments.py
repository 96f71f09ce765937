"""The options and help of `eksml-tui runs`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tui.cli.options import RUN, STORE, add_options, cluster_options, output_option
from tui.cli.run_verbs.limits import limit_options

if TYPE_CHECKING:
    from tui.cli.options import Commands


def run_commands(runs: argparse.ArgumentParser) -> None:
    """Add the verbs of `runs`."""
    verbs = runs.add_subparsers(dest="verb", metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="list all runs, newest first")
    _of_store(listing)
    listing.add_argument(
        "--cluster", action="store_true", help="also runs of other machines, by their records in the cluster"
    )
    add_options(listing, cluster_options(), suppress=True)
    output_option(listing)
    show = verbs.add_parser("show", help="show the stages of a run")
    show.add_argument("run", metavar="RUN", help=RUN)
    show.add_argument("--commands", action="store_true", help="print the commands equivalent to its stages")
    _of_store(show)
    output_option(show)
    logs = verbs.add_parser("logs", help="print the logs of a run's pods")
    logs.add_argument("run", metavar="RUN", help=RUN)
    logs.add_argument("--stage", default="", help="only this stage")
    logs.add_argument("--follow", "-f", action="store_true", help="follow until the run ends")
    _runs_curves(verbs)
    _resume(verbs)
    _requests(verbs)
    _runs_storage(verbs)
    approve = verbs.add_parser("approve", help="approve the Terraform plan of the stage that waits")
    approve.add_argument("run", metavar="RUN", help=RUN)
    approve.add_argument("--plan", default="", metavar="HASH", help="approve only this plan")
    results = verbs.add_parser("results", help="list the files that a run has produced")
    results.add_argument("run", metavar="RUN", help=RUN)
    output_option(results)
    export = verbs.add_parser("export", help="copy a run's results to S3 with a Job")
    export.add_argument("run", metavar="RUN", help=RUN)
    export.add_argument(
        "--to",
        default="",
        metavar="s3://BUCKET/PREFIX",
        help="where to (default: the run's id, below its results_bucket)",
    )
    export.add_argument(
        "--service-account",
        default="",
        metavar="NAME",
        help="service account of the Job's pod (default: that of the run's role, or else default)",
    )
    export.add_argument("--detach", action="store_true", help="start the copy without waiting for it")
    _runs_terraform(verbs)
    _runs_of_others(verbs)


def _resume(verbs: Commands) -> None:
    resume = verbs.add_parser(
        "resume",
        help="go on with what is left to do in a run",
    )
    resume.add_argument("run", metavar="RUN", help=RUN)
    resume.add_argument("--stage", default="", help="only if this stage is left to do")
    resume.add_argument("--yes", "-y", action="store_true", help="do not ask, also if it costs money")
    resume.add_argument(
        "--takeover", type=int, default=0, metavar="PID", help="first end the stalled runner that has this process id"
    )
    resume.add_argument(
        "--without-store",
        action="store_true",
        help="do not wait for an answer of the run's store; only if no other machine has taken the run over",
    )


def _requests(verbs: Commands) -> None:
    for verb, text in (
        ("cancel", "stop a run's jobs"),
        ("park", "free a run's accelerators"),
        ("pause", "begin no further stage of a run"),
    ):
        verbs.add_parser(verb, help=text).add_argument("run", metavar="RUN", help=RUN)
    limit = verbs.add_parser("limit", help="set the limits at which a run is parked or torn down")
    limit.add_argument("run", metavar="RUN", help=RUN)
    limit_options(limit, dest="new", is_change=True)
    output_option(limit)
    clean = verbs.add_parser("clean", help="remove copies and providers that no run needs")
    clean.add_argument("--dry-run", action="store_true", help="only print what is there and what would be removed")
    clean.add_argument(
        "--older-than", type=float, default=14.0, metavar="DAYS",
        help="copies that were not opened, or were set aside, this many days ago (default: 14)",
    )  # fmt: skip
    teardown = verbs.add_parser("teardown", help="remove what a run made, then audit")
    teardown.add_argument("run", metavar="RUN", help=RUN)
    teardown.add_argument("--confirm", default="", metavar="CLUSTER", help="the exact name of the cluster")
    teardown.add_argument("--delete-data", action="store_true", help="also delete storage that holds the run's data")
    teardown.add_argument("--even-if-shared", action="store_true", help="remove it although other runs or pods use it")


def _of_store(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--store", nargs="?", const="", dest="of_store", metavar=STORE,
        help="read the store, which also has runs of other machines (default: that of the settings)",
    )  # fmt: skip


def _runs_of_others(verbs: Commands) -> None:
    taken = verbs.add_parser("takeover", help="carry out a run of another machine on this one")
    taken.add_argument("run", metavar="RUN", help="the whole id of the run")
    taken.add_argument(
        "--from",
        dest="source",
        default="",
        metavar="SOURCE",
        help="cluster, s3://BUCKET/PREFIX or an archive (default: its store as known here, or of the settings)",
    )
    taken.add_argument(
        "--machine-is-gone",
        action="store_true",
        help="state that the other machine no longer exists: remove its locks, and do not wait for it",
    )
    taken.add_argument("--confirm", default="", metavar="ID", help="the run's id, if its machine may be alive")
    add_options(taken, cluster_options(), suppress=True)


def _runs_storage(verbs: Commands) -> None:
    archive = verbs.add_parser("archive", help="write a run to one file, without secrets")
    archive.add_argument("run", metavar="RUN", help=RUN)
    archive.add_argument("file", nargs="?", type=Path, metavar="FILE", help="the archive (default: RUN.tar)")
    remove = verbs.add_parser("rm", help="forget a run of which nothing is left")
    remove.add_argument("run", metavar="RUN", help=RUN)
    remove.add_argument(
        "--confirm", default="", metavar="ID", help="the exact id of the run; without it nothing is removed"
    )
    remove.add_argument("--archive", type=Path, metavar="FILE", help="write the run to FILE first")


def _runs_curves(verbs: Commands) -> None:
    compare = verbs.add_parser("compare", help="compare the curves and parameters of runs")
    compare.add_argument("runs", nargs="+", metavar="RUN", help="two runs or more: ids, or their beginnings")
    compare.add_argument(
        "--metric", default="", metavar="NAME", help="the metric (default: train_loss, or the first that all have)"
    )
    compare.add_argument(
        "--store", nargs="?", const="", dest="of_store", metavar=STORE,
        help="read runs that are not on this machine from the store (default: that of the settings)",
    )  # fmt: skip
    output_option(compare, "plot")
    curves = verbs.add_parser("curves", help="print or save the curves of a run")
    curves.add_argument("run", metavar="RUN", help=RUN)
    curves.add_argument("file", nargs="?", type=Path, metavar="FILE", help="write to FILE (default: stdout)")
    curves.add_argument("--metric", action="append", default=[], metavar="NAME", help="only this one; repeatable")
    _of_store(curves)
    choices = ("plot", "json", "yaml", "csv", "svg")
    curves.add_argument(
        "-o", "--output", choices=choices, metavar="FORM", default="",
        help=f"{', '.join(choices)} (default: by the ending of FILE, else plot)",
    )  # fmt: skip


def _runs_terraform(verbs: Commands) -> None:
    terraform = verbs.add_parser("terraform", help="show what Terraform has made, and what is open")
    terraform.add_argument("run", metavar="RUN", help=RUN)
    output_option(terraform)
    waived = verbs.add_parser("waive", help="confirm that a resource of Terraform does not exist")
    waived.add_argument("run", metavar="RUN", help=RUN)
    waived.add_argument("address", metavar="ADDRESS", help="the resource in Terraform's notation, or errored.tfstate")
    waived.add_argument("--stage", default="", help="the stage, if several have the resource open")
    waived.add_argument("--confirm", default="", metavar="ADDRESS", help="the exact address again")
