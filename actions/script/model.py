"""A script, parsed and checked: steps in order, and those that are played whatever happens."""

from __future__ import annotations

from typing import Literal

import msgspec

from actions.command.model import Call

DEFAULT_WITHIN_SECONDS = 15.0
_WITHIN_SECONDS = {
    "teardown": 2700.0, "park": 900.0, "cancel": 900.0, "launch": 60.0, "approve": 1800.0,
    "export": 1800.0, "results": 120.0,
}  # fmt: skip
"""Verbs that are done only when the run is where they lead: a real teardown takes half an hour."""
DEFAULT_DEADLINE_SECONDS = 900.0
DEFAULT_SIZE = (160, 45)

Amount = str | int | float
"""A number, or a comparison such as `>= 200`."""


class Pods(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pods of the cluster, by any of their properties; all that are given have to hold."""

    of: str = ""
    """A stage of the run on screen."""
    namespace: str = ""
    name: str = ""
    """Regular expression, searched in the pod's name."""
    phase: str = ""
    count: Amount = ">= 1"


class Log(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line in the log of the run on screen."""

    match: str
    """Regular expression."""
    of: str = ""
    """A stage; empty: any."""


class Nodes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes of the cluster."""

    count: Amount = ""
    type: str = ""
    """Only nodes of this instance type."""
    ready: Amount = ""
    priced: Literal["", "all"] = ""


class Accelerators(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Accelerators of all nodes, in whole devices."""

    busy: Amount = ""
    """Requested by pods that have not ended."""
    idle: Amount = ""
    total: Amount = ""


class Why(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The diagnosis of a stage: the first finding, which is the cause."""

    of: str
    """A stage of the run on screen."""
    code: str = ""
    says: str = ""
    """Regular expression, searched in its sentence and its evidence."""


class Conditions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"is_": "is"}):
    """What `wait` waits for and `expect` looks at. All that are given have to hold."""

    stage: str = ""
    run: str = ""
    """State that the run on screen is in."""
    is_: str = ""
    """With `stage`: the state it is in, or has passed."""
    pods: Pods | None = None
    log: Log | str | None = None
    metric: str = ""
    of: str = ""
    """With `metric`: a stage; empty: any."""
    step: Amount = ""
    """With `metric`: a point at such a step exists."""
    value: Amount = ""
    """With `metric`: the latest value."""
    text: str = ""
    """Regular expression, searched on the screen."""
    nodes: Nodes | None = None
    accelerators: Accelerators | None = None
    why: Why | None = None
    audit: Literal["", "empty"] = ""
    cluster: str = ""
    region: str = ""
    account: str = ""


class Press(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Keys, by Textual's names, separated by blanks."""

    keys: str


class Step(msgspec.Struct, frozen=True):
    """One step: what to do, where it is written, how long it may take."""

    verb: str
    action: Call | Conditions | Press
    line: int
    column: int
    within_seconds: float
    text: str
    """The step in one line, for progress and reports."""


class Script(msgspec.Struct, frozen=True):
    """A whole script."""

    file: str
    deadline_seconds: float
    size: tuple[int, int]
    """Columns and rows of the screen."""
    steps: tuple[Step, ...]
    always: tuple[Step, ...]


def default_within(verb: str) -> float:
    """How many seconds a step of this verb may take if it does not say."""
    return _WITHIN_SECONDS.get(verb, DEFAULT_WITHIN_SECONDS)
