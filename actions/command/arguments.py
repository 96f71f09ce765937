"""The arguments of every command, as keys, palette, `:` line and scripts give them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base of every command's arguments. An empty text stands for the selected object."""


def _naming(what: str, description: str = "") -> Meta:
    """Return the description of a text that names a thing of the screen: `complete` offers those that there are."""
    return Meta(description=description or None, extra={"names": what})


PaneName = Literal[
    "home",
    "nodes",
    "pods",
    "blueprints",
    "run",
    "logs",
    "accelerators",
    "charts",
    "events",
    "cost",
    "objects",
    "queues",
    "runs",
]
"""The panes, in the order of their keys and of their tabs."""
LayoutName = Literal["single", "watch", "job", "quad"]
"""The layouts of the console."""
ThemeName = Literal["dark", "light", "high-contrast", "transparent"]
Side = Literal["left", "right", "up", "down"]
ParameterValue = bool | int | float | str


class NoArguments(Arguments, frozen=True):
    """No arguments."""


class ClusterArguments(Arguments, frozen=True, kw_only=True):
    """The base of arguments about objects of one cluster: the one that is named, else that of the selected row."""

    context: Annotated[
        str,
        _naming("context", "Of a cluster that is followed. Empty: of the selected row; of what is named, on screen."),
    ] = ""


class OpenArguments(ClusterArguments, frozen=True):
    """Show a pane."""

    pane: Annotated[PaneName, _naming("pane", "The pane to show.")]
    of: Annotated[str, Meta(description="The node, stage or pod to show in it. Empty: the selected one.")] = ""


class FilterArguments(Arguments, frozen=True):
    """Narrow the focused pane."""

    text: Annotated[
        str,
        Meta(description="Words, `!word`, `/regex/`, `-f loose`, and of a kind `-l label=value`, `-F field=value`."),
    ] = ""


class SortArguments(Arguments, frozen=True):
    """Order the focused table."""

    column: Annotated[str, _naming("column", "Title of the column.")]
    descending: bool = False


class ColumnsArguments(Arguments, frozen=True):
    """Choose the columns of the focused table."""

    names: Annotated[str, _naming("column", "Titles with commas between: NAME,STATUS. Empty: all of them again.")] = ""


class LayoutArguments(Arguments, frozen=True):
    """Arrange the panes."""

    name: Annotated[LayoutName, Meta(description="single, watch (a run), job (of the cluster), quad.")]


class SplitArguments(Arguments, frozen=True):
    """Cut the place of the focused pane in two."""

    direction: Annotated[Literal["right", "down"], Meta(description="right or down.")]
    pane: Annotated[str, _naming("pane", "The pane for the new place. Empty: the last one that is not shown.")] = ""


class ResizeArguments(Arguments, frozen=True):
    """Move a border of the focused pane."""

    direction: Annotated[Side, Meta(description="left, right, up or down.")]
    cells: Annotated[int, Meta(description="By how many columns or rows.", ge=1, le=500)] = 3


class SwapArguments(Arguments, frozen=True):
    """Exchange the focused pane with another one."""

    pane: Annotated[str, _naming("pane", "left, right, up, down, next, previous, or a pane's name.")] = "next"


class FocusArguments(Arguments, frozen=True):
    """Move to a pane that is on screen."""

    pane: Annotated[str, _naming("pane", "A pane's name or key, or next, previous, left, right, up, down.")]


class ObjectArguments(ClusterArguments, frozen=True):
    """Show an object of the cluster."""

    object: Annotated[
        str,
        _naming(
            "object",
            "`namespace/name` of a pod, `kind/name`, or a name of the kind on screen. Empty: the selected one.",
        ),
    ] = ""
    container: Annotated[str, Meta(description="Container; empty: the first.")] = ""


class KindArguments(Arguments, frozen=True):
    """Show objects of one kind."""

    kind: Annotated[str, _naming("kind", "A kind that the cluster serves: plural, short name, `plural.group`.")]
    namespace: Annotated[
        str, _naming("namespace", "Only those of this namespace; `all`, or empty: of the chosen one.")
    ] = ""
    labels: Annotated[str, Meta(description="Label selector, as kubectl's -l.")] = ""
    fields: Annotated[str, Meta(description="Field selector, as kubectl's --field-selector.")] = ""


class NamespaceArguments(Arguments, frozen=True):
    """Narrow the panes to one namespace."""

    namespace: Annotated[str, _naming("namespace", "Its name; `all` for all of them. Empty: list them.")] = ""


Propagation = Literal["background", "foreground", "orphan"]


class TargetArguments(ClusterArguments, frozen=True):
    """Change objects of the cluster."""

    object: Annotated[
        str,
        _naming(
            "object",
            "`kind/name` or `kind/namespace/name`, several with commas; a name alone is of the kind on screen, else a "
            "pod's; `@UID` after a name means that one object. Empty: the marked ones, or the selected one.",
        ),
    ] = ""


class DeleteArguments(TargetArguments, frozen=True):
    """Delete objects of the cluster."""

    propagation: Annotated[
        Propagation, Meta(description="What happens to the objects that they own: kubectl's --cascade.")
    ] = "background"


class DrainArguments(TargetArguments, frozen=True):
    """Evict the pods of nodes."""

    even_if_lost: Annotated[
        bool, Meta(description="Also evict pods that no controller recreates, and those with data in an emptyDir.")
    ] = False


class ScaleArguments(ClusterArguments, frozen=True):
    """Set the replicas of workloads."""

    replicas: Annotated[int, Meta(description="How many.", ge=0)]
    object: Annotated[str, _naming("object", "As for delete. Empty: the marked ones, or the selected one.")] = ""


TARGETED = (TargetArguments, ScaleArguments)
"""Arguments of commands that change objects, as they are named, marked or selected when the command is given."""


class LogsArguments(ClusterArguments, frozen=True):
    """Follow the log of a pod."""

    object: Annotated[str, _naming("object", "`namespace/name` of a pod. Empty: the selected one.")] = ""
    container: Annotated[str, Meta(description="Container; empty: all.")] = ""
    since: Annotated[str, Meta(description="Begin this long ago: 10m, 1h30m, 2d.")] = ""
    tail: Annotated[int, Meta(description="Begin with this many of the last lines.", ge=1, le=1_000_000)] = 2_000
    previous: Annotated[bool, Meta(description="The log of the container before its last restart.")] = False


class CopyArguments(Arguments, frozen=True):
    """Copy what is selected."""

    column: Annotated[str, _naming("column", "Title of a column, for its cell. Empty: the name, or the lines.")] = ""


class BrowseArguments(Arguments, frozen=True):
    """Open a web interface that the log names."""

    to: Annotated[str, Meta(description="wandb, mlflow, tensorboard, run, project… Empty: the most special one.")] = ""


class OnlyArguments(Arguments, frozen=True):
    """Show the lines of some pods only."""

    pods: Annotated[str, Meta(description="Parts of their names, with commas. Empty: one pod; again: all.")] = ""


class SaveArguments(Arguments, frozen=True):
    """Save the log."""

    file: Annotated[str, Meta(description="Path of the file.")]


class GotoArguments(Arguments, frozen=True):
    """Go to a time of the log, an error or a match."""

    time: Annotated[
        str,
        Meta(
            description="14:02, 14:02:07, 2026-11-20T14:02 (UTC), -10m before the newest line; "
            "error, previous-error, match, previous-match; left, right: sideways."
        ),
    ]


class SearchArguments(Arguments, frozen=True):
    """Search the log."""

    pattern: Annotated[str, Meta(description="Regular expression; empty: end the search.")] = ""


class SetArguments(Arguments, frozen=True):
    """Set how the focused log or chart is shown."""

    option: Annotated[
        Literal["follow", "wrap", "time", "source", "json", "log", "smooth"],
        Meta(description="Of a log: follow, wrap, time, source, json. Of a chart: log, smooth, time. Of a text: wrap."),
    ]
    value: Annotated[str, Meta(description="on, off; wrap: tracebacks, all, none. Empty: the next one.")] = ""


class AxisArguments(Arguments, frozen=True):
    """Move along the x axis of the focused chart."""

    move: Annotated[
        Literal["in", "out", "whole", "left", "right", "next", "previous"],
        Meta(description="in, out: zoom; whole: all of it; left, right: move; next, previous: the cursor, by a point."),
    ]


class MarkArguments(Arguments, frozen=True):
    """Mark a row or a line of the log, or go to a mark."""

    action: Annotated[
        Literal["toggle", "next", "previous", "clear"],
        Meta(description="toggle: the row under the cursor, the line reached or on top; next, previous, clear."),
    ] = "toggle"


class ForwardArguments(ClusterArguments, frozen=True):
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
    run: Annotated[str, _naming("run")] = ""
    service_account: Annotated[
        str, Meta(description="Service account whose AWS role the Job uses; empty: the run's own, if it has one.")
    ] = ""


class ChartArguments(Arguments, frozen=True):
    """Choose the metric of the chart."""

    metric: Annotated[
        str,
        Meta(
            description="loss, lr… or several: lr,train/*. Empty: the next one; all: side by side; pick: from a list; "
            "next, previous: of those side by side the one that takes the keys; next-page, previous-page: the others."
        ),
    ] = ""


class CompareArguments(Arguments, frozen=True):
    """Overlay the curves of runs."""

    run: Annotated[str, _naming("other run", "Id of a run, or its beginning; alone: compared with the one on screen.")]
    other: Annotated[str, _naming("other run", "The run to compare it with; several separated by commas.")] = ""
    metric: Annotated[str, Meta(description="train_loss, lr, throughput… Empty: the first that all runs have.")] = ""


class ExportChartArguments(Arguments, frozen=True):
    """Save the chart."""

    file: Annotated[str, Meta(description="Path, ending in .svg (the pane as it is on screen) or .csv (the values).")]


class WatchArguments(ClusterArguments, frozen=True):
    """Show a job of the cluster like a stage of a run."""

    job: Annotated[
        str,
        _naming("job", "`kind/name` of a Job, PyTorchJob, MPIJob, RayJob. Empty: of the selected pod. `run`: the run."),
    ] = ""


_Until = Annotated[str, Meta(description="A limit: 2026-11-20T22:30:00Z, 22:30 (the next one, UTC) or +8h.")]
_Budget = Annotated[str, Meta(description="A limit: US dollars that the run may cost.")]
_MaxHourly = Annotated[str, Meta(description="A limit: US dollars that an hour may cost.")]
_Idle = Annotated[str, Meta(description="A limit: 30m, 1h in which no accelerator was used.")]
_Below = Annotated[str, Meta(description="5%: an accelerator with less load is not used.")]
_AtLimit = Annotated[Literal["", "park", "teardown"], Meta(description="How it ends at a limit. Empty: park.")]
_Watchdog = Annotated[
    str, Meta(description="1h, 90m: a CronJob in the cluster stops its jobs after this long without a heartbeat.")
]
YesNo = Literal["", "yes", "no"]


class LaunchArguments(Arguments, frozen=True):
    """Start a blueprint."""

    blueprint: Annotated[str, _naming("blueprint", "Id of the blueprint.")]
    preset: Annotated[str, Meta(description="A named set of parameters from the blueprint.")] = ""
    existing_cluster: Annotated[bool, Meta(description="Use the current cluster: provision nothing.")] = False
    auto_approve: Annotated[bool, Meta(description="Apply every plan without asking.")] = False
    until: _Until = ""
    budget: _Budget = ""
    max_hourly: _MaxHourly = ""
    before_credentials_end: Annotated[YesNo, Meta(description="A limit: the end of the AWS credentials.")] = ""
    before_capacity_end: Annotated[YesNo, Meta(description="A limit: the end of the capacity block.")] = ""
    idle: _Idle = ""
    below: _Below = ""
    at_limit: _AtLimit = ""
    watchdog: _Watchdog = ""
    store: Annotated[str, Meta(description="Its store, s3://BUCKET/PREFIX; none. Empty: the one of the settings.")] = ""
    waive: Annotated[str, Meta(description="Launch although these checks failed: names, separated by commas.")] = ""
    set: Annotated[dict[str, ParameterValue], Meta(description="Parameters by name.")] = field(default_factory=dict)


class PluginArguments(Arguments, frozen=True):
    """Start an external program with the selected object."""

    plugin: Annotated[str, _naming("plugin", "Its name in plugins.yaml.")] = ""
    key: Annotated[str, Meta(description="Its key, in the place of the name; one with inputs is then typed.")] = ""
    set: Annotated[dict[str, str], Meta(description="Its inputs by name.")] = field(default_factory=dict)


class RunArguments(Arguments, frozen=True):
    """Send a request to a run."""

    run: Annotated[str, _naming("run", "Id of the run, or its beginning. Empty: the one on screen.")] = ""


class LimitArguments(Arguments, frozen=True):
    """Set the limits of a run: what is not given stays, `none` takes a limit away."""

    run: Annotated[str, _naming("run", "Id of the run, or its beginning. Empty: the one on screen.")] = ""
    until: _Until = ""
    budget: _Budget = ""
    max_hourly: _MaxHourly = ""
    before_credentials_end: Annotated[YesNo, Meta(description="A limit: the end of the AWS credentials.")] = ""
    before_capacity_end: Annotated[YesNo, Meta(description="A limit: the end of the capacity block.")] = ""
    idle: _Idle = ""
    below: _Below = ""
    at_limit: _AtLimit = ""
    watchdog: _Watchdog = ""
    none: Annotated[bool, Meta(description="Remove all limits.")] = False


class ResumeArguments(Arguments, frozen=True):
    """Have a run go on."""

    run: Annotated[str, _naming("run", "Id of the run, or its beginning. Empty: the one on screen.")] = ""
    stage: Annotated[str, _naming("stage", "Only if this stage is left to do. Empty: any.")] = ""
    takeover: Annotated[int, Meta(description="Process id of its stalled runner, which is stopped first.", ge=0)] = 0


class ApproveArguments(Arguments, frozen=True):
    """Approve the plan of a waiting stage."""

    stage: Annotated[str, _naming("stage", "The stage. Empty: the one that waits.")] = ""
    run: Annotated[str, _naming("run")] = ""


class TeardownArguments(Arguments, frozen=True):
    """Remove what a run made."""

    confirm: Annotated[str, Meta(description="The exact name of the cluster.")] = ""
    run: Annotated[str, _naming("run")] = ""
    delete_data: Annotated[bool, Meta(description="Also remove storage that holds data of the run.")] = False
    even_if_shared: Annotated[bool, Meta(description="Remove it although other runs or pods use it.")] = False


class TakeoverArguments(Arguments, frozen=True):
    """Carry out a run of another machine on this one."""

    run: Annotated[str, _naming("run", "Id of the run, or its beginning. Empty: the selected one.")] = ""
    source: Annotated[
        str, Meta(description="cluster, s3://BUCKET/PREFIX or an archive. Empty: its store as it is known here.")
    ] = field(default="", name="from")
    confirm: Annotated[str, Meta(description="The run's id in full, as a confirmation.")] = ""
    machine_is_gone: Annotated[bool, Meta(description="The other machine does not exist any more.")] = False


class WaiveArguments(Arguments, frozen=True):
    """Declare that a resource does not exist that Terraform may have made."""

    address: Annotated[str, Meta(description="Address of the resource, or errored.tfstate.")]
    confirm: Annotated[str, Meta(description="The exact address again.")] = ""
    stage: Annotated[str, _naming("stage", "The stage, if it is open in several.")] = ""
    run: Annotated[str, _naming("run")] = ""


class ScreenshotArguments(Arguments, frozen=True):
    """Save the screen."""

    file: Annotated[str, Meta(description="Path, ending in .svg or .txt.")]


class ThemeArguments(Arguments, frozen=True):
    """Change the colours."""

    theme: Annotated[ThemeName, Meta(description="dark, light, high-contrast or transparent.")]


class ContextArguments(Arguments, frozen=True):
    """Show another cluster."""

    name: Annotated[
        str, _naming("context", "A context of the kubeconfig; `run`: the cluster of the run. Empty: list them.")
    ] = ""
