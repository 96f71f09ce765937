"""What can be written on the command line."""

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
  eksml-tui --demo                      open it on the embedded cluster
  eksml-tui --demo --script life.yaml   play a script, without a terminal if need be
  eksml-tui nodes --output json         what the cluster costs, once
  eksml-tui why pytorchjob/esm1nv       why it is stuck, with evidence
  kubectl logs train-0 | eksml-tui read log -o plot   the curves in a log
  eksml-tui runs list                   what has been launched from here

exit codes: 0 done or passed, 1 failed, 2 bad usage or a file with a mistake, 3 a teardown left something
"""


_SCRIPT_ONLY = ("script_check", "visible", "report", "junit", "artifacts", "allow_write")


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; ends the program with 2 if it is wrong."""
    words = sys.argv[1:] if argv is None else argv
    top = parser(with_commands=bool(words))
    options, beyond = top.parse_known_args(words)
    if options.command == "plan":  # argparse takes the parameters of a plan only where no option stands before them
        options.set += [word for word in beyond if not word.startswith("-")]
        beyond = [word for word in beyond if word.startswith("-")]
    if beyond:
        top.error(f"unrecognized arguments: {' '.join(beyond)}")
    if options.script and options.command:
        top.error(f"--script plays in the console; it does not go with {options.command}")
    stray = [f"--{name.replace('_', '-')}" for name in _SCRIPT_ONLY if getattr(options, name) and not options.script]
    if stray:
        top.error(f"{stray[0]} needs --script FILE")
    if options.demo and options.kubeconfig:
        top.error("--demo brings its own kubeconfig; leave --kubeconfig out")
    return options


def parser(*, with_commands: bool = True) -> argparse.ArgumentParser:
    """The whole command line; without words there is no command to be read, and `with_commands` can be spared."""
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
    if not with_commands:
        top.set_defaults(command=None)
        return top
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    _nodes(commands, cluster)
    _why(commands, cluster)
    _watch(commands, cluster)
    _read(commands)
    _blueprints(commands)
    _validate(commands)
    _mirror(commands)
    _plan(commands)
    _runs(commands)
    _sandbox(commands)
    return top


_Options = list[tuple[tuple[str, ...], dict[str, object]]]


def _cluster_options() -> _Options:
    return [
        (("--demo",), {"action": "store_true", "help": "use the embedded cluster on 127.0.0.1; start it if need be"}),
        (
            ("--kubeconfig",),
            {"type": Path, "metavar": "FILE", "help": "kubeconfig (default: $KUBECONFIG, ~/.kube/config)"},
        ),
        (("--context",), {"default": "", "metavar": "NAME", "help": "context of the kubeconfig"}),
        (("-n", "--namespace"), {"default": "", "metavar": "NAME", "help": "namespace to begin with"}),
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
        (("--region",), {"default": "", "metavar": "REGION", "help": "AWS region, where the cluster does not say"}),
    ]


def _add_options(target: argparse.ArgumentParser, options: _Options, *, suppress: bool = False) -> None:
    for names, settings in options:
        extra = {"default": argparse.SUPPRESS} if suppress else {}
        target.add_argument(*names, **(settings | extra))  # type: ignore[arg-type]


def _console_options(top: argparse.ArgumentParser) -> None:
    top.add_argument("--readonly", action="store_true", help="refuse whatever would change the cluster or a run")
    top.add_argument(
        "--blueprints", type=Path, action="append", default=[], metavar="DIR", help="more blueprints; repeatable"
    )
    top.add_argument("--speed", type=_factor, metavar="X", help="a new demo prints so much faster than in reality")
    top.add_argument(
        "--ascii", action="store_true", help="draw with ASCII alone (default: where the locale is no UTF-8)"
    )
    top.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")
    top.add_argument("--run", default="", metavar="ID", help="the run to show first")
    script = top.add_argument_group("playing a script")
    script.add_argument("--script", type=Path, metavar="FILE", help="play the steps of FILE")
    script.add_argument("--script-check", action="store_true", help="only check the script")
    script.add_argument("--visible", action="store_true", help="play it in this terminal instead of headless")
    script.add_argument("--report", type=Path, metavar="FILE", help="write a JSON report")
    script.add_argument("--junit", type=Path, metavar="FILE", help="write a JUnit report")
    script.add_argument("--artifacts", type=Path, metavar="DIR", help="where screenshots and failures go (default: .)")
    script.add_argument(
        "--allow-write", type=Path, action="append", default=[], metavar="DIR",
        help="let the script write below DIR, too; repeatable",
    )  # fmt: skip


def _nodes(commands: Commands, cluster: _Options) -> None:
    nodes = commands.add_parser("nodes", help="nodes, what is used of them, what they cost; once")
    _add_options(nodes, cluster, suppress=True)
    nodes.add_argument("--output", "-o", choices=("table", "json"), default="table")


def _why(commands: Commands, cluster: _Options) -> None:
    why = commands.add_parser("why", help="why something is stuck: cause, evidence, next step")
    why.add_argument(
        "object", nargs="?", default="", metavar="OBJECT", help="pod/NS/NAME, pytorchjob/NAME, node/NAME…; empty: all"
    )
    why.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE",
        help="read what kubectl get pods,nodes,events -o json printed, or a captured case; - is stdin",
    )
    _add_options(why, cluster, suppress=True)
    why.add_argument("--output", "-o", choices=("table", "json"), default="table")


def _watch(commands: Commands, cluster: _Options) -> None:
    watch = commands.add_parser("watch", help="watch any job of the cluster: logs, accelerators, curves")
    watch.add_argument("job", metavar="JOB", help="pytorchjob/NAME, mpijob/NS/NAME, job/NAME, rayjob/NAME")
    _add_options(watch, cluster, suppress=True)
    watch.add_argument("--plain", action="store_true", help="only its log, also on a terminal; ends with the job")


def _read(commands: Commands) -> None:
    read = commands.add_parser("read", help="read what a tool or a trainer printed, from a file or a pipe")
    read.add_argument("kind", choices=("log", "nccl", "nvidia-smi", "neuron", "efa"), help="what printed it")
    read.add_argument("file", nargs="?", default="-", metavar="FILE", help="a file, also gzipped (default: stdin)")
    read.add_argument("--output", "-o", choices=("table", "json", "plot"), default="table")
    read.add_argument(
        "--metric", action="append", default=[], metavar="NAME", help="with log and plot: draw this one; repeatable"
    )


def _blueprints(commands: Commands) -> None:
    listing = commands.add_parser("blueprints", help="list the blueprints, or show one")
    listing.add_argument("id", nargs="?", default="", help="the blueprint to show")
    listing.add_argument("--output", "-o", choices=("table", "json"), default="table")


def _validate(commands: Commands) -> None:
    validate = commands.add_parser("validate", help="check blueprint folders")
    validate.add_argument("folder", type=Path, nargs="+")


def _mirror(commands: Commands) -> None:
    mirror = commands.add_parser("mirror", help="fill a folder with the operators that blueprints pin")
    mirror.add_argument("name", nargs="*", metavar="NAME", help="operators, or blueprints (default: all)")
    mirror.add_argument("--to", type=Path, metavar="DIR", help="the mirror (default: mirror in the settings folder)")
    mirror.add_argument("--from", dest="source", type=Path, metavar="FILE", help="take this file instead of a download")
    mirror.add_argument("--check", action="store_true", help="only look at what is there")
    mirror.add_argument("--output", "-o", choices=("table", "json"), default="table")


def _plan(commands: Commands) -> None:
    plan = commands.add_parser("plan", help="what a launch would make, and what it would cost")
    plan.add_argument("blueprint")
    plan.add_argument("--preset", default="", help="a named set of parameters")
    plan.add_argument("--existing-cluster", action="store_true", help="provision nothing")
    plan.add_argument("set", nargs="*", metavar="name=value", help="parameters")
    plan.add_argument("--output", "-o", choices=("table", "json"), default="table")


def _runs(commands: Commands) -> None:
    runs = commands.add_parser("runs", help="what has been launched from this machine")
    verbs = runs.add_subparsers(dest="verb", metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="all runs, newest first")
    listing.add_argument("--output", "-o", choices=("table", "json"), default="table")
    show = verbs.add_parser("show", help="the stages of a run")
    show.add_argument("run")
    show.add_argument("--output", "-o", choices=("table", "json"), default="table")
    logs = verbs.add_parser("logs", help="what the pods of a run printed")
    logs.add_argument("run")
    logs.add_argument("--stage", default="", help="only this stage")
    logs.add_argument("--follow", "-f", action="store_true", help="go on until the run ends")
    resume = verbs.add_parser("resume", help="start its runner again")
    resume.add_argument("run")
    resume.add_argument(
        "--takeover", type=int, default=0, metavar="PID", help="end its stalled runner, this process, first"
    )
    for verb, text in (
        ("cancel", "stop its jobs"),
        ("park", "free its accelerators"),
    ):
        verbs.add_parser(verb, help=text).add_argument("run")
    approve = verbs.add_parser("approve", help="approve the plan that a stage waits with")
    approve.add_argument("run")
    approve.add_argument("--plan", default="", metavar="HASH", help="only this plan")
    runbook = verbs.add_parser("runbook", help="the commands that its stages stand for, as Markdown")
    runbook.add_argument("run")
    results = verbs.add_parser("results", help="what it has made, where it lies")
    results.add_argument("run")
    results.add_argument("--output", "-o", choices=("table", "json"), default="table")
    export = verbs.add_parser("export", help="copy what it has made to S3, by a Job")
    export.add_argument("run")
    export.add_argument("--to", required=True, metavar="s3://BUCKET/PREFIX")
    export.add_argument("--service-account", default="", metavar="NAME", help="of the Job's pod (default: default)")
    export.add_argument("--detach", action="store_true", help="begin the copy, and do not wait for it")
    _runs_terraform(verbs)
    repair = verbs.add_parser("repair", help="mend its damaged logs and curves; copy what is left of its journal")
    repair.add_argument("run")
    repair.add_argument("--output", "-o", choices=("table", "json"), default="table")
    retry = verbs.add_parser("retry", help="try its failed stage again")
    retry.add_argument("run")
    teardown = verbs.add_parser("teardown", help="remove what it made, then audit")
    teardown.add_argument("run")
    teardown.add_argument("--confirm", default="", metavar="CLUSTER", help="the cluster's name, letter by letter")
    teardown.add_argument("--delete-data", action="store_true", help="also storage that holds data of the run")


def _runs_terraform(verbs: Commands) -> None:
    terraform = verbs.add_parser("terraform", help="what Terraform holds, and what it left open")
    terraform.add_argument("run")
    terraform.add_argument("--output", "-o", choices=("table", "json"), default="table")
    taken = verbs.add_parser("import", help="say under which id a resource exists that Terraform may have made")
    waived = verbs.add_parser("waive", help="say that a resource is not there that Terraform may have made")
    for verb in (taken, waived):
        verb.add_argument("run")
        verb.add_argument("address", metavar="ADDRESS", help="as Terraform writes it; with waive also errored.tfstate")
        verb.add_argument("--stage", default="", help="where several stages have it open")
    taken.add_argument("id", metavar="ID", help="as the provider's terraform import takes it")
    waived.add_argument("--confirm", default="", metavar="ADDRESS", help="the same, letter by letter")


def _sandbox(commands: Commands) -> None:
    sandbox = commands.add_parser("sandbox", help="serve the embedded cluster alone")
    sandbox.add_argument("--port", type=_port, default=0, help="port on 127.0.0.1 (default: a free one)")
    sandbox.add_argument("--speed", type=_factor, metavar="X", help="workloads print so much faster than in reality")
    sandbox.add_argument("--name", type=_name, default="served", help="name of its state folder")
    sandbox.add_argument("--scale", default="", metavar="nodes=N,pods=N", help="add so many hollow nodes and pods")
    verbs = sandbox.add_subparsers(dest="verb", metavar="VERB")
    faults = verbs.add_parser("faults", help="list, add or clear faults of a running sandbox")
    faults.add_argument("words", nargs="*", metavar="WORD", help="nothing, clear [NAME], SCENARIO, or kind=… count=…")


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
