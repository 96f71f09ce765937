"""The registry of commands, each with its typed arguments: for keys, palette, `:` line and scripts."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from actions.base.errors import MissingError, nearest_hint
from actions.command.arguments import (
    ApproveArguments,
    Arguments,
    AxisArguments,
    BrowseArguments,
    ChartArguments,
    ColumnsArguments,
    CompareArguments,
    ContextArguments,
    CopyArguments,
    DeleteArguments,
    DrainArguments,
    ExportArguments,
    ExportChartArguments,
    FilterArguments,
    FocusArguments,
    ForwardArguments,
    GotoArguments,
    KindArguments,
    LaunchArguments,
    LayoutArguments,
    LimitArguments,
    LogsArguments,
    MarkArguments,
    NamespaceArguments,
    NoArguments,
    ObjectArguments,
    OnlyArguments,
    OpenArguments,
    PluginArguments,
    ResizeArguments,
    ResumeArguments,
    RunArguments,
    SaveArguments,
    ScaleArguments,
    ScreenshotArguments,
    SearchArguments,
    SetArguments,
    SortArguments,
    SplitArguments,
    SwapArguments,
    TakeoverArguments,
    TargetArguments,
    TeardownArguments,
    ThemeArguments,
    WaiveArguments,
    WatchArguments,
)

A = TypeVar("A", bound="Arguments")


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
            if item.encode_name == "set":
                words.append("[name=value …]")
            elif position == 0:
                words.append(item.encode_name.upper() if item.required else f"[{item.encode_name.upper()}]")
            else:
                words.append(f"{item.encode_name}=…" if item.required else f"[{item.encode_name}=…]")
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
                given[item.encode_name] = value
        return given


COMMANDS: tuple[Command, ...] = (
    Command("open", "Open a pane", "Show home, nodes, pods, blueprints, runs, logs, charts…", OpenArguments),
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
    Command("resume", "Resume the run", "Go on with what is left to do.", ResumeArguments, Danger.CONFIRM, True),
    Command("cancel", "Cancel the run", "Stop its jobs; keep cluster and storage.", RunArguments, Danger.CONFIRM, True),
    Command(
        "park", "Park the run", "Free the accelerators; keep cluster and data.", RunArguments, Danger.CONFIRM, True
    ),
    Command("limit", "Limit the run", "Park it or tear it down at a time or a cost.", LimitArguments, is_mutation=True),
    Command(
        "teardown",
        "Tear the run down",
        "Remove what the run made, in reverse, then audit.",
        TeardownArguments,
        Danger.TYPE_NAME,
        True,
    ),
    Command(
        "takeover",
        "Take a run over",
        "Carry out a run of another machine on this one, from its store.",
        TakeoverArguments,
        Danger.TYPE_NAME,
        True,
    ),
    Command(
        "terraform",
        "Show Terraform",
        "States, running processes, resources that may exist outside of a state.",
        RunArguments,
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
    Command("objects", "Show a kind", "Objects of any kind that the cluster serves, as kubectl get.", KindArguments),
    Command("namespace", "Choose a namespace", "Narrow pods, events and objects to it.", NamespaceArguments),
    Command("kinds", "List the kinds", "Every kind that the cluster serves, with its short names.", NoArguments),
    Command("describe", "Describe", "The object's status and events.", ObjectArguments),
    Command("yaml", "Show YAML", "The object as the API returns it.", ObjectArguments),
    Command("why", "Why is it stuck?", "The cause in one sentence, its evidence, the next step.", ObjectArguments),
    Command("logs", "Show logs", "Follow the object's log.", LogsArguments),
    Command(
        "goto", "Go to a time or error", "Scroll the log to a time, an error, a match, or sideways.", GotoArguments
    ),
    Command("search", "Search the log", "Highlight the matches of a regular expression.", SearchArguments),
    Command(
        "set", "Set how it is shown", "Follow, wrap, time… of a log; log axis, smoothing… of curves.", SetArguments
    ),
    Command("axis", "Move along the axis", "Zoom and move the x axis of a chart, and its cursor.", AxisArguments),
    Command("mark", "Mark", "Mark a row or a line of the log, or go to the next or previous mark.", MarkArguments),
    Command("only", "Show one pod's lines", "Narrow a log to some pods, and back.", OnlyArguments),
    Command("browse", "Open its web page", "Of wandb, MLflow or TensorBoard, as the log names it.", BrowseArguments),
    Command("copy", "Copy", "Copy the selected name, or lines of the log, to the terminal's clipboard.", CopyArguments),
    Command("save", "Save the log", "Write the lines of the log that are shown to a file.", SaveArguments),
    Command("watch", "Watch a job", "Show logs, accelerators and curves of any job of the cluster.", WatchArguments),
    Command("queue", "Find it in its queue", "The place of a job in its queue, and what is before it.", WatchArguments),
    Command(
        "forward",
        "Forward a port",
        "Open a local port to a pod: dashboards of a run.",
        ForwardArguments,
        is_mutation=True,
    ),
    Command("shell", "Open a shell", "A shell in the container.", ObjectArguments, is_mutation=True),
    Command(
        "edit", "Edit", "The object as YAML in $EDITOR; it is sent when you save.", TargetArguments, is_mutation=True
    ),
    Command(
        "plugin",
        "Start a plugin",
        "A program of your plugins.yaml, with the selected object.",
        PluginArguments,
        is_mutation=True,
    ),
    Command("delete", "Delete", "Delete the object, or the marked ones.", DeleteArguments, Danger.CONFIRM, True),
    Command("scale", "Scale", "Set the replicas of a workload.", ScaleArguments, Danger.CONFIRM, True),
    Command(
        "restart",
        "Restart",
        "Replace all pods of a workload, as kubectl rollout restart.",
        TargetArguments,
        Danger.CONFIRM,
        True,
    ),
    Command(
        "suspend",
        "Suspend a job",
        "End the pods of the job and keep it, by its kind's own suspension.",
        TargetArguments,
        Danger.CONFIRM,
        True,
    ),
    Command(
        "unsuspend",
        "Go on with a job",
        "Let a suspended job make its pods again.",
        TargetArguments,
        Danger.CONFIRM,
        True,
    ),
    Command("cordon", "Cordon a node", "Let no new pods onto the node.", TargetArguments, Danger.CONFIRM, True),
    Command("uncordon", "Uncordon a node", "Let new pods onto the node again.", TargetArguments, Danger.CONFIRM, True),
    Command(
        "drain",
        "Drain a node",
        "Cordon it and evict its pods; disruption budgets are respected.",
        DrainArguments,
        Danger.CONFIRM,
        True,
    ),
    Command("chart", "Choose the curve", "Show the losses, or another metric of the log.", ChartArguments),
    Command(
        "compare", "Compare runs", "Overlay the curves of runs; list the parameters that differ.", CompareArguments
    ),
    Command("export-chart", "Save the chart", "The pane as SVG, or its values as CSV.", ExportChartArguments),
    Command("filter", "Filter", "Narrow the focused pane.", FilterArguments),
    Command("sort", "Sort", "Order the focused table by a column.", SortArguments),
    Command("columns", "Choose columns", "Show only some columns of the focused table.", ColumnsArguments),
    Command(
        "layout",
        "Arrange panes",
        "One pane, four to watch a run or a job, or an overview.",
        LayoutArguments,
    ),
    Command("split", "Split the pane", "Show another pane to the right of the focused one, or below.", SplitArguments),
    Command("resize", "Resize the pane", "Move its border left, right, up or down.", ResizeArguments),
    Command("swap", "Swap panes", "Exchange the focused pane with another one.", SwapArguments),
    Command("close", "Close the pane", "Give its room to its neighbours; never of the last one.", NoArguments),
    Command("equalize", "Equalize panes", "Make them equally wide and high.", NoArguments),
    Command("zoom", "Zoom", "Give the focused pane the whole screen, and back.", NoArguments),
    Command("focus", "Go to a pane", "Move the focus.", FocusArguments),
    Command("context", "Change cluster", "Show the cluster of another context.", ContextArguments),
    Command("theme", "Change the colours", "Dark, light, high contrast, or transparent.", ThemeArguments),
    Command("screenshot", "Save the screen", "As SVG, or as text.", ScreenshotArguments),
    Command("alarms", "Alarms", "Those that are not acknowledged, and whether they were sent.", NoArguments),
    Command("ack", "Acknowledge alarms", "Silence the current alarms.", NoArguments),
    Command("back", "Back", "Close the screen in front, or go back.", NoArguments),
    Command("help", "Help", "The keys of the focused pane.", NoArguments),
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
