"""The command line: options, commands and their help."""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - argparse has no other name for it

VERSION = "0.1.0"

_EPILOG = """\
examples:
  eksml-tui                             open the console on the kubeconfig's context
  eksml-tui --demo                      open the console on the embedded cluster
  eksml-tui --demo --script life.yaml   play a script, also without a terminal
  eksml-tui nodes --output json         print nodes, usage and cost once
  eksml-tui why pytorchjob/esm1nv       explain why it is stuck, with evidence
  kubectl logs train-0 | eksml-tui read log -o plot   plot the curves of a log
  eksml-tui doctor bionemo-esm1nv       check what a launch needs, before anything is paid for
  eksml-tui runs list                   list the runs launched from this machine

exit codes: 0 done or passed, 1 failed, 2 bad usage or an invalid file, 3 a teardown left something
"""


_SCRIPT_ONLY = ("script_check", "visible", "report", "junit", "artifacts", "allow_write")


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line; exit with code 2 if it is wrong."""
    words = sys.argv[1:] if argv is None else argv
    top = parser(words)
    options, beyond = top.parse_known_args(words)
    if options.command in ("plan", "doctor"):  # argparse takes parameters only where no option stands before them
        options.set += [word for word in beyond if not word.startswith("-")]
        beyond = [word for word in beyond if word.startswith("-")]
    if beyond:
        top.error(f"unrecognized arguments: {' '.join(beyond)}")
    if options.script and options.command:
        top.error(f"--script plays in the console; it cannot be combined with {options.command}")
    stray = [f"--{name.replace('_', '-')}" for name in _SCRIPT_ONLY if getattr(options, name) and not options.script]
    if stray:
        top.error(f"{stray[0]} needs --script FILE")
    if options.demo and options.kubeconfig:
        top.error("--demo has its own kubeconfig; omit --kubeconfig")
    return options


def parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Build the parser: whole, or of these words, which saves a third of the time to parse most of them.

    Args:
        words: The command line. No command is added for an empty one, and no verb of `runs` if that is not among them.
    """
    top = argparse.ArgumentParser(
        prog="eksml-tui",
        description="The console for people who train models on Amazon EKS.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    top.add_argument("--debug", action="store_true", help="show the traceback of an error, with secrets removed")
    cluster = _cluster_options()
    _add_options(top, cluster)
    _console_options(top)
    if words is not None and not words:
        top.set_defaults(command=None)
        return top
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    _nodes(commands, cluster)
    _why(commands, cluster)
    _watch(commands, cluster)
    _forward(commands, cluster)
    _read(commands)
    _blueprints(commands)
    _validate(commands)
    _mirror(commands)
    _plan(commands)
    _prices(commands)
    _doctor(commands, cluster)
    runs = commands.add_parser("runs", help="list, inspect and control the runs launched from this machine")
    if words is None or "runs" in words:
        _runs(runs)
    _sandbox(commands)
    return top


_Options = list[tuple[tuple[str, ...], dict[str, object]]]


def _cluster_options() -> _Options:
    return [
        (("--demo",), {"action": "store_true", "help": "use the embedded cluster on 127.0.0.1; start it if necessary"}),
        (
            ("--kubeconfig",),
            {"type": Path, "metavar": "FILE", "help": "kubeconfig (default: $KUBECONFIG, ~/.kube/config)"},
        ),
        (("--context",), {"default": "", "metavar": "NAME", "help": "context of the kubeconfig"}),
        (("-n", "--namespace"), {"default": "", "metavar": "NAME", "help": "namespace to start in"}),
        (("--profile",), {"default": "", "metavar": "NAME", "help": "AWS profile"}),
        (
            ("--allow-plugin",),
            {
                "action": "append",
                "default": [],
                "metavar": "NAME",
                "help": "start this exec plugin of the kubeconfig; repeatable",
            },
        ),
        (("--region",), {"default": "", "metavar": "REGION", "help": "AWS region, if the cluster does not name one"}),
    ]


def _add_options(target: argparse.ArgumentParser, options: _Options, *, suppress: bool = False) -> None:
    for names, settings in options:
        extra = {"default": argparse.SUPPRESS} if suppress else {}
        target.add_argument(*names, **(settings | extra))  # type: ignore[arg-type]


def _console_options(top: argparse.ArgumentParser) -> None:
    top.add_argument(
        "--readonly", action="store_true", help="refuse every command that would change the cluster or a run"
    )
    top.add_argument(
        "--blueprints", type=Path, action="append", default=[], metavar="DIR", help="more blueprints; repeatable"
    )
    top.add_argument(
        "--prices", type=Path, metavar="FILE", help="your own prices and discounts (default: see eksml-tui prices)"
    )
    top.add_argument("--speed", type=_factor, metavar="X", help="speed of a new demo as a multiple of real time")
    top.add_argument("--ascii", action="store_true", help="draw with ASCII only (default if the locale is not UTF-8)")
    top.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")
    top.add_argument("--run", default="", metavar="ID", help="id of the run to show first")
    script = top.add_argument_group("playing a script")
    script.add_argument("--script", type=Path, metavar="FILE", help="play the steps of FILE")
    script.add_argument("--script-check", action="store_true", help="only check the script")
    script.add_argument("--visible", action="store_true", help="play it in this terminal instead of headless")
    script.add_argument("--report", type=Path, metavar="FILE", help="write a JSON report")
    script.add_argument("--junit", type=Path, metavar="FILE", help="write a JUnit report")
    script.add_argument("--artifacts", type=Path, metavar="DIR", help="where screenshots and failures go (default: .)")
    script.add_argument(
        "--allow-write", type=Path, action="append", default=[], metavar="DIR",
        help="also let the script write below DIR; repeatable",
    )  # fmt: skip


def _nodes(commands: Commands, cluster: _Options) -> None:
    nodes = commands.add_parser("nodes", help="print the nodes with their usage and cost, once")
    _add_options(nodes, cluster, suppress=True)
    _price_file(nodes)
    nodes.add_argument("--output", "-o", choices=("table", "json"), default="table")


def _why(commands: Commands, cluster: _Options) -> None:
    why = commands.add_parser("why", help="explain why something is stuck: cause, evidence, next step")
    why.add_argument(
        "object", nargs="?", default="", metavar="OBJECT", help="pod/NS/NAME, pytorchjob/NAME, node/NAME…; empty: all"
    )
    why.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE",
        help="read the output of kubectl get pods,nodes,events -o json, or captured evidence; - is stdin",
    )
    _add_options(why, cluster, suppress=True)
    why.add_argument("--output", "-o", choices=("table", "json"), default="table")


def _watch(commands: Commands, cluster: _Options) -> None:
    watch = commands.add_parser("watch", help="watch any job of the cluster: logs, accelerators, curves")
    watch.add_argument("job", metavar="JOB", help="pytorchjob/NAME, mpijob/NS/NAME, job/NAME, rayjob/NAME")
    _add_options(watch, cluster, suppress=True)
    watch.add_argument("--plain", action="store_true", help="print only its log, even on a terminal; ends with the job")


def _forward(commands: Commands, cluster: _Options) -> None:
    forward = commands.add_parser(
        "forward", help="open a local port to TensorBoard, a dashboard or any pod, until Ctrl-C"
    )
    forward.add_argument(
        "to",
        nargs="?",
        default="",
        metavar="TO",
        help="tensorboard, dashboard, prometheus, or NAMESPACE/POD:PORT; empty: list what there is",
    )
    _add_options(forward, cluster, suppress=True)
    forward.add_argument(
        "--local", type=_port, default=0, metavar="PORT", help="port on 127.0.0.1 (default: a free one)"
    )


def _read(commands: Commands) -> None:
    read = commands.add_parser("read", help="read the output of a tool or trainer from a file or pipe")
    read.add_argument("kind", choices=("log", "nccl", "nvidia-smi", "neuron", "efa"), help="the tool that printed it")
    read.add_argument("file", nargs="?", default="-", metavar="FILE", help="a file, may be gzipped (default: stdin)")
    read.add_argument("--output", "-o", choices=("table", "json", "plot"), default="table")
    read.add_argument(
        "--metric", action="append", default=[], metavar="NAME", help="with log -o plot: draw this metric; repeatable"
    )


def _blueprints(commands: Commands) -> None:
    listing = commands.add_parser("blueprints", help="list the blueprints, or show one")
    listing.add_argument("id", nargs="?", default="", help="the blueprint to show")
    listing.add_argument("--output", "-o", choices=("table", "json"), default="table")


def _validate(commands: Commands) -> None:
    validate = commands.add_parser("validate", help="check blueprint folders")
    validate.add_argument("folder", type=Path, nargs="+")


def _mirror(commands: Commands) -> None:
    mirror = commands.add_parser("mirror", help="download what launches need into a folder")
    mirror.add_argument(
        "name", nargs="*", metavar="NAME", help="operators, modules, providers, or blueprints (default: all)"
    )
    mirror.add_argument(
        "--to", type=Path, metavar="DIR", help="folder of the mirror (default: mirror in the settings folder)"
    )
    mirror.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE",
        help="use this file, or folder of a release's files: no download",
    )
    mirror.add_argument(
        "--platform", default="", metavar="OS_ARCH", help="of the providers, as linux_amd64 (default: this machine's)"
    )
    mirror.add_argument("--check", action="store_true", help="only check the files that are there")
    mirror.add_argument("--output", "-o", choices=("table", "json"), default="table")


def _plan(commands: Commands) -> None:
    plan = commands.add_parser("plan", help="show what a launch would create and what it would cost")
    plan.add_argument("blueprint")
    plan.add_argument("--no-checks", action="store_true", help="print the plan alone: ask neither AWS nor a cluster")
    _price_file(plan)
    _launch_options(plan)


def _doctor(commands: Commands, cluster: _Options) -> None:
    doctor = commands.add_parser("doctor", help="check programs, credentials, rights, quotas, names before a launch")
    doctor.add_argument(
        "blueprint", nargs="?", default="", metavar="BLUEPRINT", help="the launch to check; empty: this machine"
    )
    _launch_options(doctor)
    _add_options(doctor, cluster, suppress=True)


def _launch_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--preset", default="", help="a named set of parameters")
    command.add_argument("--existing-cluster", action="store_true", help="use the present cluster; provision nothing")
    command.add_argument("set", nargs="*", metavar="name=value", help="parameters")
    command.add_argument("--output", "-o", choices=("table", "json"), default="table")


def _price_file(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--prices",
        type=Path,
        default=argparse.SUPPRESS,
        metavar="FILE",
        help="your own prices and discounts (default: prices.csv in the settings folder)",
    )


def _prices(commands: Commands) -> None:
    prices = commands.add_parser("prices", help="keep a file of prices up to date")
    verbs = prices.add_subparsers(dest="verb", metavar="VERB", required=True)
    refresh = verbs.add_parser("refresh", help="ask AWS for the prices of regions; rows of your own stay")
    refresh.add_argument("regions", nargs="*", metavar="REGION", help="regions (default: that of the session)")
    refresh.add_argument("--no-spot", action="store_true", help="leave out spot prices, which change by the hour")
    _price_file(refresh)
    _add_options(refresh, [option for option in _cluster_options() if option[0][0] == "--profile"], suppress=True)


def _runs(runs: argparse.ArgumentParser) -> None:
    verbs = runs.add_subparsers(dest="verb", metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="list all runs, newest first")
    listing.add_argument("--output", "-o", choices=("table", "json"), default="table")
    show = verbs.add_parser("show", help="show the stages of a run")
    show.add_argument("run")
    show.add_argument("--output", "-o", choices=("table", "json"), default="table")
    logs = verbs.add_parser("logs", help="print the logs of a run's pods")
    logs.add_argument("run")
    logs.add_argument("--stage", default="", help="only this stage")
    logs.add_argument("--follow", "-f", action="store_true", help="follow until the run ends")
    resume = verbs.add_parser("resume", help="restart a run's runner")
    resume.add_argument("run")
    resume.add_argument(
        "--takeover", type=int, default=0, metavar="PID", help="first end the stalled runner that has this process id"
    )
    for verb, text in (
        ("cancel", "stop a run's jobs"),
        ("park", "free a run's accelerators"),
    ):
        verbs.add_parser(verb, help=text).add_argument("run")
    approve = verbs.add_parser("approve", help="approve the plan that a stage is waiting with")
    approve.add_argument("run")
    approve.add_argument("--plan", default="", metavar="HASH", help="approve only this plan")
    runbook = verbs.add_parser("runbook", help="print the commands equivalent to a run's stages, as Markdown")
    runbook.add_argument("run")
    results = verbs.add_parser("results", help="list the files that a run has produced")
    results.add_argument("run")
    results.add_argument("--output", "-o", choices=("table", "json"), default="table")
    export = verbs.add_parser("export", help="copy a run's results to S3 with a Job")
    export.add_argument("run")
    export.add_argument(
        "--to", default="", metavar="s3://BUCKET/PREFIX", help="(default: the run's id, below its results_bucket)"
    )
    export.add_argument(
        "--service-account",
        default="",
        metavar="NAME",
        help="service account of the Job's pod (default: that of the run's role, or else default)",
    )
    export.add_argument("--detach", action="store_true", help="start the copy without waiting for it")
    _runs_terraform(verbs)
    repair = verbs.add_parser("repair", help="repair a run's damaged logs and curves; copy what is left of its journal")
    repair.add_argument("run")
    repair.add_argument("--output", "-o", choices=("table", "json"), default="table")
    retry = verbs.add_parser("retry", help="retry the failed stage of a run")
    retry.add_argument("run")
    teardown = verbs.add_parser("teardown", help="remove what a run made, then audit")
    teardown.add_argument("run")
    teardown.add_argument("--confirm", default="", metavar="CLUSTER", help="the exact name of the cluster")
    teardown.add_argument("--delete-data", action="store_true", help="also delete storage that holds the run's data")
    teardown.add_argument("--even-if-shared", action="store_true", help="remove it although other runs or pods use it")


def _runs_terraform(verbs: Commands) -> None:
    terraform = verbs.add_parser("terraform", help="show what Terraform holds and left open in a run")
    terraform.add_argument("run")
    terraform.add_argument("--output", "-o", choices=("table", "json"), default="table")
    taken = verbs.add_parser("import", help="give the id of a resource that Terraform may have created")
    waived = verbs.add_parser("waive", help="confirm that a resource Terraform may have created does not exist")
    for verb in (taken, waived):
        verb.add_argument("run")
        verb.add_argument(
            "address", metavar="ADDRESS", help="the resource in Terraform's notation; with waive also errored.tfstate"
        )
        verb.add_argument("--stage", default="", help="the stage, if several have the resource open")
    taken.add_argument("id", metavar="ID", help="the id, in the form that terraform import expects")
    waived.add_argument("--confirm", default="", metavar="ADDRESS", help="the exact address again")


def _sandbox(commands: Commands) -> None:
    sandbox = commands.add_parser("sandbox", help="serve the embedded cluster without a console")
    sandbox.add_argument("--port", type=_port, default=0, help="port on 127.0.0.1 (default: a free one)")
    sandbox.add_argument("--speed", type=_factor, metavar="X", help="speed of workloads as a multiple of real time")
    sandbox.add_argument("--name", type=_name, default="served", help="name of its state folder")
    sandbox.add_argument(
        "--scale", default="", metavar="nodes=N,pods=N", help="add hollow nodes and pods: stored, never run"
    )
    verbs = sandbox.add_subparsers(dest="verb", metavar="VERB")
    faults = verbs.add_parser("faults", help="list, inject or clear faults in a running sandbox")
    faults.add_argument(
        "words", nargs="*", metavar="WORD", help="none: list faults; clear [NAME]; SCENARIO; or kind=… count=…"
    )


def _factor(text: str) -> float:
    factor = float(text)
    if not 0 < factor < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return factor


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port < 65_536:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 65535")
    return port


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name: use letters, digits, - and _")
    return text


# what argparse calls the types in `invalid … value`
_factor.__name__, _port.__name__ = "number", "port"
