"""The registry of commands, each with its typed arguments: for keys, palette, `:` line and scripts."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, field

from actions.base.errors import MissingError

A = TypeVar("A", bound="Arguments")


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base of every command's arguments. An empty text stands for the selected object."""


class Danger(StrEnum):
    """The confirmation that a command requires."""

    NONE = "none"
    CONFIRM = "confirm"
    """Yes or no."""
    TYPE_NAME = "type-name"
    """The cluster's name, typed."""


class Command(msgspec.Struct, frozen=True):
    """One command of the registry.

    Args:
        id: The word on the `:` line and in scripts.
        title: The name in lists.
        help: One sentence.
        arguments: The Struct that its arguments are decoded into; the first field is the positional one.
        danger: The confirmation that it requires.
        is_mutation: It may change the cluster or a run; a read-only session refuses it.
    """

    id: str
    title: str
    help: str
    arguments: type[Arguments]
    danger: Danger = Danger.NONE
    is_mutation: bool = False

    def fields(self) -> tuple[msgspec.structs.FieldInfo, ...]:
        """Return the fields of its arguments, the positional one first."""
        return msgspec.structs.fields(self.arguments)

    def usage(self) -> str:
        """Return its usage on the `:` line, such as `launch BLUEPRINT [preset=…] [name=value …]`."""
        words = [self.id]
        for position, item in enumerate(self.fields()):
            if item.name == "set":
                words.append("[name=value …]")
            elif position == 0:
                words.append(item.name.upper() if item.required else f"[{item.name.upper()}]")
            else:
                words.append(f"{item.name}=…" if item.required else f"[{item.name}=…]")
        return " ".join(words)


class Call(msgspec.Struct, frozen=True):
    """A command with its arguments, ready to run."""

    command: Command
    arguments: Arguments

    def values(self) -> Mapping[str, Any]:
        """Return the arguments by name as plain values, without those that have their default."""
        given: dict[str, Any] = {}
        for item in self.command.fields():
            value = getattr(self.arguments, item.name)
            default = item.default if item.default is not msgspec.NODEFAULT else None
            if item.default_factory is not msgspec.NODEFAULT:
                default = item.default_factory()
            if value != default:
                given[item.name] = value
        return given


PaneName = Literal["nodes", "pods", "blueprints", "run", "logs", "accelerators", "charts", "events", "cost", "runs"]
"""The panes, in the order of their keys and of their tabs."""
LayoutName = Literal["single", "watch", "job", "quad"]
ParameterValue = bool | int | float | str


class NoArguments(Arguments, frozen=True):
    """No arguments."""


class OpenArguments(Arguments, frozen=True):
    """Show a pane."""

    pane: Annotated[PaneName, Meta(description="The pane to show.")]
    of: Annotated[str, Meta(description="The node, stage or pod to show in it. Empty: the selected one.")] = ""


class FilterArguments(Arguments, frozen=True):
    """Narrow the focused pane."""

    text: Annotated[str, Meta(description="Text to search for; empty clears the filter.")] = ""


class SortArguments(Arguments, frozen=True):
    """Order the focused table."""

    column: Annotated[str, Meta(description="Title of the column.")]
    descending: bool = False


class LayoutArguments(Arguments, frozen=True):
    """Arrange the panes."""

    name: Annotated[LayoutName, Meta(description="single, watch (a run), job (of the cluster) or quad.")]


class FocusArguments(Arguments, frozen=True):
    """Move to a pane that is on screen."""

    pane: Annotated[str, Meta(description="A pane's name or number, or next, previous, left, right, up, down.")]


class ObjectArguments(Arguments, frozen=True):
    """Show an object of the cluster."""

    object: Annotated[str, Meta(description="`namespace/name` of a pod, or `kind/name`. Empty: the selected one.")] = ""
    container: Annotated[str, Meta(description="Container; empty: the first.")] = ""


class ForwardArguments(Arguments, frozen=True):
    """Open a local port to a pod."""

    to: Annotated[
        str,
        Meta(description="tensorboard, dashboard, prometheus, or `namespace/pod:port`. Empty: list what is available."),
    ] = ""
    local: Annotated[int, Meta(description="Port on 127.0.0.1; 0, the default, takes a free one.", ge=0, le=65535)] = 0
    stop: Annotated[bool, Meta(description="Close it.")] = False


class ExportArguments(Arguments, frozen=True):
    """Copy the results of a run to S3."""

    to: Annotated[str, Meta(description="s3://BUCKET/PREFIX; empty: below the run's results_bucket.")] = ""
    run: str = ""
    service_account: Annotated[
        str, Meta(description="Service account whose AWS role the Job uses; empty: the run's own, if it has one.")
    ] = ""


class ChartArguments(Arguments, frozen=True):
    """Choose the metric of the chart."""

    metric: Annotated[str, Meta(description="loss, lr, grad_norm, throughput, busbw_gbs… Empty: the next one.")] = ""


class WatchArguments(Arguments, frozen=True):
    """Show a job of the cluster like a stage of a run."""

    job: Annotated[
        str,
        Meta(
            description="`kind/name` of a Job, PyTorchJob, MPIJob, RayJob. Empty: of the selected pod. `run`: the run."
        ),
    ] = ""


class LaunchArguments(Arguments, frozen=True):
    """Start a blueprint."""

    blueprint: Annotated[str, Meta(description="Id of the blueprint.")]
    preset: Annotated[str, Meta(description="A named set of parameters from the blueprint.")] = ""
    existing_cluster: Annotated[bool, Meta(description="Use the current cluster: provision nothing.")] = False
    auto_approve: Annotated[bool, Meta(description="Apply every plan without asking.")] = False
    set: Annotated[dict[str, ParameterValue], Meta(description="Parameters by name.")] = field(default_factory=dict)


class RunArguments(Arguments, frozen=True):
    """Send a request to a run."""

    run: Annotated[str, Meta(description="Id of the run. Empty: the one on screen.")] = ""


class ResumeArguments(Arguments, frozen=True):
    """Start the runner of a run again."""

    run: Annotated[str, Meta(description="Id of the run. Empty: the one on screen.")] = ""
    takeover: Annotated[int, Meta(description="Process id of its stalled runner, which is stopped first.", ge=0)] = 0


class ApproveArguments(Arguments, frozen=True):
    """Approve the plan of a waiting stage."""

    stage: Annotated[str, Meta(description="The stage. Empty: the one that waits.")] = ""
    run: str = ""


class RetryArguments(Arguments, frozen=True):
    """Try a failed stage again."""

    stage: Annotated[str, Meta(description="The stage. Empty: the one that failed.")] = ""
    run: str = ""


class TeardownArguments(Arguments, frozen=True):
    """Remove what a run made."""

    confirm: Annotated[str, Meta(description="The cluster's name, letter by letter.")] = ""
    run: str = ""
    delete_data: Annotated[bool, Meta(description="Also remove storage that holds data of the run.")] = False
    even_if_shared: Annotated[bool, Meta(description="Remove it although other runs or pods use it.")] = False


class ImportArguments(Arguments, frozen=True):
    """Give the id of an existing resource that Terraform may have made."""

    address: Annotated[str, Meta(description="Address of the resource, as Terraform writes it.")]
    id: Annotated[str, Meta(description="Its id, as the provider's `terraform import` takes it.")]
    stage: Annotated[str, Meta(description="The stage, if it is open in several.")] = ""
    run: str = ""


class WaiveArguments(Arguments, frozen=True):
    """Declare that a resource does not exist that Terraform may have made."""

    address: Annotated[str, Meta(description="Address of the resource, or errored.tfstate.")]
    confirm: Annotated[str, Meta(description="The address again, letter by letter.")] = ""
    stage: Annotated[str, Meta(description="The stage, if it is open in several.")] = ""
    run: str = ""


class ScreenshotArguments(Arguments, frozen=True):
    """Save the screen."""

    file: Annotated[str, Meta(description="Path, ending in .svg or .txt.")]


class ContextArguments(Arguments, frozen=True):
    """Connect to another cluster."""

    name: Annotated[
        str, Meta(description="A context of the kubeconfig; `run`: the cluster of the run. Empty: list them.")
    ] = ""


COMMANDS: tuple[Command, ...] = (
    Command("open", "Open a pane", "Show nodes, pods, blueprints, runs, logs, charts…", OpenArguments),
    Command(
        "launch",
        "Launch a blueprint",
        "Review parameters, plan and cost, then start.",
        LaunchArguments,
        Danger.CONFIRM,
        True,
    ),
    Command("approve", "Approve the plan", "Continue the stage that waits.", ApproveArguments, Danger.CONFIRM, True),
    Command("pause", "Pause the run", "Start no further stage.", RunArguments, is_mutation=True),
    Command("unpause", "Unpause the run", "Start further stages again.", RunArguments, is_mutation=True),
    Command("retry", "Retry a stage", "Try the failed stage again.", RetryArguments, Danger.CONFIRM, True),
    Command("cancel", "Cancel the run", "Stop its jobs; keep cluster and storage.", RunArguments, Danger.CONFIRM, True),
    Command(
        "park", "Park the run", "Free the accelerators; keep cluster and data.", RunArguments, Danger.CONFIRM, True
    ),
    Command(
        "teardown",
        "Tear the run down",
        "Remove what the run made, in reverse, then audit.",
        TeardownArguments,
        Danger.TYPE_NAME,
        True,
    ),
    Command("resume", "Resume the run", "Start its runner again, after it died.", ResumeArguments, is_mutation=True),
    Command(
        "terraform",
        "Show Terraform",
        "States, running processes, resources that may exist outside of a state.",
        RunArguments,
    ),
    Command(
        "import",
        "Import a resource",
        "It exists: Terraform takes it into its state.",
        ImportArguments,
        Danger.CONFIRM,
        True,
    ),
    Command(
        "waive",
        "Waive a resource",
        "Forget it: teardown and audit no longer look for it.",
        WaiveArguments,
        Danger.TYPE_NAME,
        True,
    ),
    Command("results", "List the results", "The files that the run has made.", RunArguments),
    Command(
        "export",
        "Export the results",
        "Copy the files that the run has made to S3.",
        ExportArguments,
        Danger.CONFIRM,
        True,
    ),
    Command("describe", "Describe", "The object's status and events.", ObjectArguments),
    Command("yaml", "Show YAML", "The object as the API returns it.", ObjectArguments),
    Command("why", "Why is it stuck?", "The cause in one sentence, its evidence, the next step.", ObjectArguments),
    Command("logs", "Show logs", "Follow the object's log.", ObjectArguments),
    Command("watch", "Watch a job", "Show logs, accelerators and curves of any job of the cluster.", WatchArguments),
    Command(
        "forward",
        "Forward a port",
        "Open a local port to a pod: dashboards of a run.",
        ForwardArguments,
        is_mutation=True,
    ),
    Command("shell", "Open a shell", "A shell in the container.", ObjectArguments, is_mutation=True),
    Command("chart", "Choose the curve", "Show the losses, or another metric of the log.", ChartArguments),
    Command("filter", "Filter", "Narrow the focused pane.", FilterArguments),
    Command("sort", "Sort", "Order the focused table by a column.", SortArguments),
    Command("layout", "Arrange panes", "One pane, four to watch a run or a job, or an overview.", LayoutArguments),
    Command("zoom", "Zoom", "Give the focused pane the whole screen, and back.", NoArguments),
    Command("focus", "Go to a pane", "Move the focus.", FocusArguments),
    Command("context", "Change cluster", "Connect to another context of the kubeconfig.", ContextArguments),
    Command("screenshot", "Save the screen", "As SVG, or as text.", ScreenshotArguments),
    Command("back", "Back", "Close the screen in front, or go back.", NoArguments),
    Command("help", "Help", "Keys and commands.", NoArguments),
    Command("quit", "Quit", "Leave the console; runs continue.", NoArguments),
)

_BY_ID = {command.id: command for command in COMMANDS}


def command_of(identifier: str) -> Command:
    """Return the command called `identifier`.

    Raises:
        MissingError: There is none; the hint names the nearest ones.
    """
    found = _BY_ID.get(identifier)
    if found is None:
        raise MissingError(f"There is no command {identifier!r}.", hint=nearest_hint(identifier, _BY_ID))
    return found


def nearest_hint(word: str, known: object) -> str:
    """Return `Did you mean …?`, or the list of known names if none is similar."""
    import difflib

    names = sorted(str(name) for name in known) if isinstance(known, (dict, list, tuple, set, frozenset)) else []
    near = difflib.get_close_matches(word, names, n=3)
    return f"Did you mean {' or '.join(near)}?" if near else f"Known: {', '.join(names)}."
