"""The command line: options, commands and their help."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from actions.base.errors import nearest_hint
from tui.cli.blueprint_options import blueprint_commands
from tui.cli.examples import GROUPS, epilog_of
from tui.cli.options import (
    RUN,
    SEVERAL,
    STORE,
    Options,
    add_options,
    cluster_options,
    console_options,
    duration_in_seconds,
    factor_of,
    known_words,
    listing_option,
    listing_options,
    natural_number,
    nodes_option,
    object_name,
    output_option,
    port_of,
)
from tui.cli.run_verbs.arguments import run_commands
from tui.cli.run_verbs.limits import limit_options

if TYPE_CHECKING:
    from tui.cli.options import Commands

VERSION = "0.1.0"

_EPILOG = """\
examples:
  eksml-tui                             open the console on the context
  eksml-tui --demo                      open the console on the embedded cluster
  eksml-tui --demo --script life.yaml   play a script, also without a terminal
  eksml-tui nodes --output json         print nodes, usage and cost once
  eksml-tui why pytorchjob/esm1nv       explain why it is stuck, with evidence
  kubectl logs train-0 | eksml-tui read log -o plot   plot its curves
  eksml-tui doctor bionemo-esm1nv       check what a launch needs
  eksml-tui runs list                   list the runs launched from this machine

exit codes: 0 done or passed, 1 failed, 2 bad usage or an invalid file,
  3 a teardown left something
"""


_SCRIPT_ONLY = ("script_check", "visible", "report", "junit", "summary", "artifacts", "allow_write")


_OF_SEVERAL = ("nodes", "pods", "cost")
"""Commands that ask several clusters, if `--contexts` is on their line: one in the settings is the console's."""


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line; exit with code 2 if it is wrong."""
    words = sys.argv[1:] if argv is None else argv
    top = parser(words)
    options, unknown = top.parse_known_args(options_first(top, words))
    if unknown:
        command = _command_of(top, words)
        command.error(f"unrecognized arguments: {' '.join(unknown)}{_near_options(command, unknown[0])}")
    if options.script and options.command:
        top.error(f"--script plays in the console; it cannot be combined with {options.command}")
    if options.record and options.command:
        top.error(f"--record writes what is done in the console; it cannot be combined with {options.command}")
    stray = [f"--{name.replace('_', '-')}" for name in _SCRIPT_ONLY if getattr(options, name) and not options.script]
    if stray:
        top.error(f"{stray[0]} needs --script FILE")
    options.several = options.contexts if options.command in _OF_SEVERAL else None
    if options.contexts and options.command not in (None, "serve", *_OF_SEVERAL):
        top.error(
            f"--contexts is for the console, {', '.join(_OF_SEVERAL)}; {options.command} asks one: give --context"
        )
    if options.several and (options.demo or getattr(options, "watch", False)):
        top.error(f"--contexts does not go with {'--demo' if options.demo else '--watch'}: that is of one cluster")
    if options.demo and options.kubeconfig:
        top.error("--demo has its own kubeconfig; omit --kubeconfig")
    return options


def _near_options(command: argparse.ArgumentParser, word: str) -> str:
    """Return the options of a command that are written like one that it lacks."""
    known = [name for action in command._actions for name in action.option_strings]  # noqa: SLF001
    return f". {near}" if word.startswith("-") and (near := nearest_hint(word.partition("=")[0], known, "")) else ""


def _command_of(top: argparse.ArgumentParser, words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the command that the words call, whose help has what is allowed."""
    found = top
    for word in words:
        found = subcommands_of(found).get(word, found)
    return found


def options_first(command: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """Return the words with the options of each command before its other words.

    argparse takes a word that may be missing only where no option stands before it: `read log -o plot FILE` would have
    an unknown word, and `plan ID --preset NAME name=value` too.
    """
    options: list[str] = []
    others: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*options, *others, word, *rest]
        if not word.startswith("-") or word == "-":
            below = subcommands_of(command).get(word)
            if below is not None:
                return [*options, *others, word, *options_first(below, rest)]
            others.append(word)
            continue
        options.append(word)
        nargs = _nargs_of(command, word)
        if rest and (nargs == _ONE or (nargs == "?" and rest[0].startswith(_ADDRESS))):
            options.append(rest.pop(0))
        elif nargs == "?":
            options[-1] = f"{word}="  # argparse would take the next word, which is none of its addresses
    return [*options, *others]


_ONE = "one"
_ADDRESS = "s3:"


def _nargs_of(command: argparse.ArgumentParser, word: str) -> str:
    """Return `_ONE` if the value of an option is the word behind it, `?` if it may be, else nothing.

    Options may be shortened, as argparse lets them.
    """
    if word.startswith("--"):
        name, _, value = word.partition("=")
        if value or "=" in word:
            return ""
        known = [action for action in command._actions if name in action.option_strings]  # noqa: SLF001
        known = known or [
            action
            for action in command._actions  # noqa: SLF001
            if any(option.startswith(name) for option in action.option_strings)
        ]
    else:
        known = [action for action in command._actions if word in action.option_strings]  # noqa: SLF001 - `-ojson` is one
    if not known:
        return ""
    return _ONE if known[0].nargs is None else str(known[0].nargs)


def subcommands_of(command: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the commands below a command, by name; empty for none."""
    for action in command._actions:  # noqa: SLF001 - argparse has no other list of them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return dict(action.choices)
    return {}


_CHOICE = re.compile(r"argument (?P<name>.+?): invalid choice: '(?P<word>.*)' \(choose from (?P<known>.+)\)", re.DOTALL)
_PLACES = frozenset({"COMMAND", "VERB"})


_MISSING = re.compile(r"the following arguments are required: (COMMAND|VERB)")


class CommandParser(argparse.ArgumentParser):
    """A parser that refuses a command line in a sentence, not under thirteen lines of usage."""

    def error(self, message: str) -> NoReturn:
        if _MISSING.fullmatch(message):
            self.exit(2, self.format_help())
        choice = _CHOICE.fullmatch(message)
        self.exit(2, f"{self.prog}: error: {_known_choices(choice) if choice else message}\nSee {self.prog} --help\n")


def _known_choices(choice: re.Match[str]) -> str:
    """Return the sentence with the words that are allowed; of commands those that are written like it."""
    known = re.findall(r"[\w-]+", choice["known"])
    if choice["name"] not in _PLACES:
        return f"{choice['name']} cannot be {choice['word']!r}; it is one of {', '.join(known)}"
    return known_words(choice["name"], choice["word"], known)


def parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Build the parser: whole, or of these words, which saves a third of the time to parse most of them.

    Args:
        words: The command line. No command is added for an empty one, and no verb of `runs` if that is not among them.
    """
    if words is None:
        return _built(has_commands=True, has_verbs=True)
    return _built(has_commands=bool(words), has_verbs="runs" in words)


@cache
def _built(*, has_commands: bool, has_verbs: bool) -> argparse.ArgumentParser:
    """Build the parser once, which takes 25 ms; parsing changes nothing in it."""
    top: argparse.ArgumentParser = CommandParser(
        prog="eksml-tui",
        description="The console for people who train models on Amazon EKS.",
        epilog=_EPILOG,
        formatter_class=_Help,
    )
    top.add_argument("-V", "--version", action="version", version=f"%(prog)s {VERSION}")
    top.add_argument("--debug", action="store_true", help="show the traceback of an error, with secrets removed")
    cluster = cluster_options()
    add_options(top, cluster)
    console_options(top)
    if not has_commands:
        top.set_defaults(command=None)
        return top
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    _nodes(commands, cluster)
    _tables(commands, cluster)
    _why(commands, cluster)
    _audit(commands, cluster)
    _watch(commands, cluster)
    _logs(commands, cluster)
    _guard(commands, cluster)
    _forward(commands, cluster)
    _read(commands)
    blueprint_commands(commands, cluster)
    _mirror(commands)
    _prices(commands)
    _doctor(commands, cluster)
    _plan(commands, cluster)
    _launch(commands, cluster)
    runs = commands.add_parser("runs", help="list, inspect and control runs")
    if has_verbs:
        run_commands(runs)
    _alarms(commands)
    _support(commands, cluster)
    _serve(commands, cluster)
    _sandbox(commands)
    _for_shells(commands)
    _explain(top, [(action.option_strings, action.help) for action in top._actions if action.option_strings])  # noqa: SLF001
    return top


class _Help(argparse.RawDescriptionHelpFormatter):
    """The form of a help: options that are described by the help of all commands are in its usage alone."""

    def __init__(self, prog: str, described: Sequence[object] = ()) -> None:
        super().__init__(prog)
        self._described = described

    def add_argument(self, action: argparse.Action) -> None:
        if (action.option_strings, action.help) not in self._described:
            super().add_argument(action)
            if action.nargs == argparse.PARSER:  # whose verbs are indented once more than it counts
                self._action_max_length += self._indent_increment

    def _format_action(self, action: argparse.Action) -> str:
        text = super()._format_action(action)
        group = None if action.option_strings or action.nargs == argparse.PARSER else GROUPS.get(action.dest)
        return f"\n  {group}:\n{text}" if group else text


def _explain(command: argparse.ArgumentParser, described: Sequence[object], words: str = "") -> None:
    """Give each command a sentence and its examples; options that are described above are left out of its help."""
    for action in command._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            sentences = {choice.dest: choice.help or "" for choice in action._choices_actions}  # noqa: SLF001
            for name, below in action.choices.items():
                path = f"{words} {name}".strip()
                text = sentences.get(name, "")
                below.description = f"{text[:1].upper()}{text[1:]}."
                below.epilog = f"{epilog_of(path)}\n\nother options: eksml-tui --help"
                below.formatter_class = partial(_Help, described=described)
                _explain(below, described, path)


def _nodes(commands: Commands, cluster: Options) -> None:
    nodes = commands.add_parser("nodes", help="print the nodes with their usage and cost, once")
    add_options(nodes, [*cluster, *SEVERAL], suppress=True)
    _price_file(nodes)
    listing_options(nodes, "--selector", "--label-columns", "--watch")


def _tables(commands: Commands, cluster: Options) -> None:
    pods = commands.add_parser("pods", help="print the pods of a namespace, or of all, once")
    add_options(pods, [*cluster, *SEVERAL], suppress=True)
    pods.add_argument("--node", default="", metavar="NAME", help="only the pods of this node")
    pods.add_argument("--of-run", default="", metavar="ID", help="only the pods of this run")
    events = commands.add_parser("events", help="print the newest events, oldest first")
    add_options(events, cluster, suppress=True)
    events.add_argument("--warnings", action="store_true", help="only warnings")
    cost = commands.add_parser("cost", help="print what the nodes cost an hour, and how much idles")
    add_options(cost, [*cluster, *SEVERAL], suppress=True)
    _price_file(cost)
    queues = commands.add_parser("queues", help="print queues of Kueue and Volcano, and a job's place")
    add_options(queues, cluster, suppress=True)
    queues.add_argument("job", nargs="?", default="", metavar="KIND/NAME", help="only the places of this job")
    listing_options(pods, "--all-namespaces", "--selector", "--label-columns", "--watch")
    listing_options(events, "--all-namespaces", "--watch")
    for command in (cost, queues):
        output_option(command)


def _why(commands: Commands, cluster: Options) -> None:
    why = commands.add_parser("why", help="explain why something is stuck, and what to do next")
    why.add_argument(
        "object", nargs="?", default="", metavar="OBJECT", help="pod/NS/NAME, pytorchjob/NAME, node/NAME…; empty: all"
    )
    why.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE",
        help="read what kubectl printed (get -o json or yaml, describe, events, logs) or captured evidence; - is stdin",
    )
    add_options(why, cluster, suppress=True)
    output_option(why)


def _audit(commands: Commands, cluster: Options) -> None:
    audit = commands.add_parser("audit", help="name what lost runs have left in cluster and account")
    audit.add_argument(
        "name", nargs="?", default="", metavar="CLUSTER", help="its name in EKS (default: the cluster of the context)"
    )
    add_options(audit, cluster, suppress=True)
    output_option(audit)


def _watch(commands: Commands, cluster: Options) -> None:
    watch = commands.add_parser("watch", help="watch any job: its logs, accelerators and curves")
    watch.add_argument("job", metavar="JOB", help="pytorchjob/NAME, mpijob/NS/NAME, job/NAME, rayjob/NAME")
    add_options(watch, cluster, suppress=True)
    watch.add_argument("--plain", action="store_true", help="print only its log, even on a terminal; ends with the job")


def _logs(commands: Commands, cluster: Options) -> None:
    logs = commands.add_parser("logs", help="print the logs of a pod, a job, or of pods with labels")
    logs.add_argument(
        "object", nargs="?", default="", metavar="OBJECT", help="POD, NAMESPACE/POD, job/NAME, mpijob/NAME…"
    )
    add_options(logs, cluster, suppress=True)
    listing_option(logs, "--all-namespaces", "--selector")
    logs.add_argument("-c", "--container", default="", metavar="NAME", help="only this container of each pod")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until the containers have ended")
    logs.add_argument("-p", "--previous", action="store_true", help="those of the containers before their last restart")
    logs.add_argument("--tail", type=natural_number, metavar="N", help="only the last lines of each (default: all)")
    logs.add_argument(
        "--to", type=Path, metavar="FILE", help="write them to FILE, without secrets, for a blueprint's rehearsal"
    )
    logs.add_argument("--since", type=duration_in_seconds, metavar="TIME", help="only lines of the last 10m, 2h…")


def _guard(commands: Commands, cluster: Options) -> None:
    guard = commands.add_parser("guard", help="send the alarms of a job that no run has made")
    guard.add_argument("job", metavar="JOB", help="pytorchjob/NAME, mpijob/NS/NAME, job/NAME, rayjob/NAME")
    add_options(guard, cluster, suppress=True)
    guard.add_argument("--idle", default="", metavar="TIME", help="alarm when no accelerator was used for so long: 30m")
    guard.add_argument(
        "--below", default="", metavar="LOAD", help="an accelerator with less load is not used (default: 5%%)"
    )
    guard.add_argument("--park", action="store_true", help="suspend the job then")


def _forward(commands: Commands, cluster: Options) -> None:
    forward = commands.add_parser("forward", help="open a local port to TensorBoard, Ray or any pod")
    forward.add_argument(
        "to",
        nargs="?",
        default="",
        metavar="TO",
        help="tensorboard, dashboard, prometheus, or NAMESPACE/POD:PORT; empty: list what there is",
    )
    add_options(forward, cluster, suppress=True)
    forward.add_argument(
        "--local", type=port_of, default=0, metavar="PORT", help="port on 127.0.0.1 (default: a free one)"
    )
    output_option(forward)


def _read(commands: Commands) -> None:
    read = commands.add_parser("read", help="read what a tool or trainer has printed")
    read.add_argument(
        "kind",
        choices=("log", "nccl", "nvidia-smi", "topo", "neuron", "efa"),
        help="the tool that printed it",
    )
    read.add_argument("file", nargs="?", default="-", metavar="FILE", help="a file, may be gzipped (default: stdin)")
    output_option(read, "plot")
    read.add_argument(
        "--metric", action="append", default=[], metavar="NAME", help="with log -o plot: draw this metric; repeatable"
    )


def _mirror(commands: Commands) -> None:
    mirror = commands.add_parser("mirror", help="download what launches need into a folder")
    mirror.add_argument(
        "name",
        nargs="*",
        default=[],
        metavar="NAME",
        help="operators, modules, providers, or blueprints (default: all)",
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
    output_option(mirror)


def _plan(commands: Commands, cluster: Options) -> None:
    plan = commands.add_parser("plan", help="show what a launch would create and what it would cost")
    plan.add_argument("blueprint", metavar="BLUEPRINT", help="the blueprint to plan")
    plan.add_argument("--no-checks", action="store_true", help="print the plan alone: ask neither AWS nor a cluster")
    plan.add_argument(
        "--manifests", type=Path, metavar="DIR", help="write the objects that it would apply into an empty folder"
    )
    _price_file(plan)
    limit_options(plan, dest="limit")
    _launch_options(plan)
    add_options(plan, cluster, suppress=True)


def _doctor(commands: Commands, cluster: Options) -> None:
    doctor = commands.add_parser("doctor", help="check all that a launch needs, and change nothing")
    doctor.add_argument(
        "blueprint", nargs="?", default="", metavar="BLUEPRINT", help="the launch to check; empty: this machine"
    )
    _launch_options(doctor)
    add_options(doctor, cluster, suppress=True)


def _launch(commands: Commands, cluster: Options) -> None:
    launch = commands.add_parser("launch", help="start a run in the background, print its id")
    launch.add_argument("blueprint", metavar="BLUEPRINT", help="the blueprint to launch")
    launch.add_argument("--yes", action="store_true", help="launch without asking")
    launch.add_argument("--auto-approve", action="store_true", help="carry out Terraform's plans without asking")
    launch.add_argument("--no-checks", action="store_true", help="skip the checks that ask AWS or a cluster")
    launch.add_argument(
        "--waive", action="append", default=[], metavar="CHECK", help="launch even though this check failed; repeatable"
    )
    _price_file(launch)
    limit_options(launch, dest="limit")
    _launch_options(launch)
    add_options(launch, cluster, suppress=True)


def _launch_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--preset", default="", help="a named set of parameters")
    command.add_argument("--existing-cluster", action="store_true", help="use the current cluster; provision nothing")
    command.add_argument(
        "--store", default=argparse.SUPPRESS, metavar=STORE, help="replicate the run to this place in S3"
    )
    command.add_argument("set", nargs="*", default=[], metavar="name=value", help="parameters")
    output_option(command)


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
    refresh = verbs.add_parser("refresh", help="ask AWS for prices of regions; rows of your own stay")
    refresh.add_argument(
        "regions", nargs="*", default=[], metavar="REGION", help="regions (default: that of the session)"
    )
    refresh.add_argument("--no-spot", action="store_true", help="leave out spot prices, which change by the hour")
    _price_file(refresh)
    add_options(refresh, [option for option in cluster_options() if option[0][0] == "--profile"], suppress=True)


def _alarms(commands: Commands) -> None:
    alarms = commands.add_parser("alarms", help="list the alarms of runs that are not acknowledged")
    output_option(alarms)
    verbs = alarms.add_subparsers(dest="verb", metavar="VERB")
    verbs.add_parser("ack", help="acknowledge them all, for every console")
    verbs.add_parser("test", help="send a test alarm by hook and webhook")


def _support(commands: Commands, cluster: Options) -> None:
    support = commands.add_parser("support", help="write an archive for a bug report, without secrets")
    support.add_argument("run", metavar="RUN", help=RUN)
    support.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="the archive (default: eksml-support-RUN.tar.gz)"
    )
    add_options(support, cluster, suppress=True)
    support.add_argument("--mask", action="store_true", help="also mask account ids, host names and user names")


def _serve(commands: Commands, cluster: Options) -> None:
    serve = commands.add_parser("serve", help="open the console in a browser, read-only")
    serve.add_argument("--port", type=port_of, default=0, help="port on 127.0.0.1 (default: a free one)")
    serve.add_argument("--allow-changes", action="store_true", help="let it change the cluster and runs")
    add_options(serve, cluster, suppress=True)


def _sandbox(commands: Commands) -> None:
    sandbox = commands.add_parser("sandbox", help="serve the embedded cluster without a console")
    sandbox.add_argument("--port", type=port_of, default=0, help="port on 127.0.0.1 (default: a free one)")
    sandbox.add_argument("--speed", type=factor_of, metavar="X", help="speed of workloads as a multiple of real time")
    sandbox.add_argument("--name", type=object_name, default="served", help="name of its state folder")
    sandbox.add_argument(
        "--scale", default="", metavar="nodes=N,pods=N", help="add hollow nodes and pods: stored, never run"
    )
    nodes_option(sandbox)
    verbs = sandbox.add_subparsers(dest="verb", metavar="VERB")
    faults = verbs.add_parser("faults", help="list, inject or clear faults in a running sandbox")
    faults.add_argument(
        "words",
        nargs="*",
        default=[],
        metavar="WORD",
        help="none: list faults; clear [NAME]; SCENARIO; or kind=… count=…",
    )


def _for_shells(commands: Commands) -> None:
    completion = commands.add_parser("completion", help="print the completion of this command line for a shell")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")
    asked = commands.add_parser("help", help="print the help of a command")
    asked.add_argument("words", nargs="*", default=[], metavar="COMMAND", help="the command, and its verb")
    commands.add_parser("version", help="print the version")
    commands.add_parser("man", help="print the manual page of this command line, in roff")
    page = commands.add_parser("docs", help="print a page of the documentation, or list them")
    page.add_argument("page", nargs="?", default="", metavar="PAGE", help="the page; empty: list all")
    texts = commands.add_parser("print", help="print what administrators and editors need, as a file").add_subparsers(
        dest="verb", metavar="TEXT", required=True
    )
    texts.add_parser("rbac", help="the roles in a cluster, for kubectl apply").set_defaults(name="")
    policy = texts.add_parser("iam", help="a policy of the account, for aws iam")
    policy.add_argument("name", choices=("view", "launch", "store", "teardown"), help="what it is for")
    schema = texts.add_parser("schema", help="a JSON Schema, for editors that check YAML")
    schema.add_argument("name", choices=("blueprint", "config"), help="the file that it is of")
    config = commands.add_parser("config", help="print each setting with its value and source")
    output_option(config)
