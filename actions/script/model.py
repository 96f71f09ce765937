"""The parsed script: its steps, their conditions, and the small values written in them."""

from __future__ import annotations

import math
import operator
import re
import unicodedata
from collections.abc import Callable
from typing import Literal

import msgspec

from actions.base.numbers import real
from actions.base.wording import seconds_in
from actions.command.verbs import Call

_DEFAULT_WITHIN_SECONDS = 30.0
_WITHIN_SECONDS = {
    "teardown": 2700.0, "park": 900.0, "cancel": 900.0, "launch": 120.0, "approve": 1800.0,
    "export": 1800.0, "results": 120.0, "retry": 120.0, "resume": 120.0,
}  # fmt: skip
"""Commands that end when the run has reached their state: a real teardown takes half an hour."""
DEFAULT_DEADLINE_SECONDS = 900.0
DEFAULT_SIZE = (160, 45)

Amount = str | int | float
"""A number, or a comparison such as `>= 200`."""


class PodsCondition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number of pods of the cluster; all properties that are given must match."""

    of: str = ""
    """A stage of the run on screen."""
    namespace: str = ""
    name: str = ""
    """Regular expression, searched in the pod's name."""
    phase: str = ""
    count: Amount = ">= 1"


class LogCondition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line in the logs of the run on screen."""

    match: str
    """Regular expression."""
    of: str = ""
    """A stage; empty: any."""


class NodesCondition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Numbers of nodes of the cluster."""

    count: Amount = ""
    type: str = ""
    """Only nodes of this instance type."""
    ready: Amount = ""
    priced: Literal["", "all"] = ""


class AcceleratorsCondition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Numbers of accelerators of all nodes, in whole devices."""

    busy: Amount = ""
    """Requested by pods that have not ended."""
    idle: Amount = ""
    total: Amount = ""


class WhyCondition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first finding of a stage's diagnosis, which is the cause."""

    of: str
    """A stage of the run on screen."""
    code: str = ""
    says: str = ""
    """Regular expression, searched in its headline and evidence."""


class Conditions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"is_": "is"}):
    """The conditions of a `wait` or `expect`; all that are given must hold."""

    stage: str = ""
    run: str = ""
    """State of the run on screen."""
    is_: str = ""
    """With `stage`: a state that it is in, or has passed."""
    pods: PodsCondition | None = None
    log: LogCondition | str | None = None
    metric: str = ""
    of: str = ""
    """With `metric`: a stage; empty: any."""
    step: Amount = ""
    """With `metric`: a point at such a step exists."""
    value: Amount = ""
    """With `metric`: the latest value."""
    text: str = ""
    """Regular expression, searched on the screen."""
    nodes: NodesCondition | None = None
    accelerators: AcceleratorsCondition | None = None
    why: WhyCondition | None = None
    audit: Literal["", "empty"] = ""
    cluster: str = ""
    region: str = ""
    account: str = ""


class Press(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Keys to press, by Textual's names, separated by blanks."""

    keys: str


class ScriptStep(msgspec.Struct, frozen=True):
    """One step: its action, its place in the file, its time limit."""

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
    nodes: str
    """Those that an embedded cluster has from the beginning, as `TYPE=N,…`; nothing to any other cluster."""
    steps: tuple[ScriptStep, ...]
    always: tuple[ScriptStep, ...]


def default_within(verb: str) -> float:
    """Return the time limit of a step that has no `within`, in seconds, by its verb."""
    return _WITHIN_SECONDS.get(verb, _DEFAULT_WITHIN_SECONDS)


_COMPARISON = re.compile(r"(>=|<=|==|!=|>|<)?\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}


def parse_duration(text: str | float) -> float:
    """Return the seconds of `90s`, `2m`, `1h30m` or a plain number of seconds.

    Raises:
        ValueError: It has another form, or is not above zero.
    """
    seconds = seconds_in(text.strip()) if isinstance(text, str) else real(text)
    if seconds is None:
        raise ValueError(f"{text!r} is not a duration; write 90s, 2m or 1h30m")
    if not 0 < seconds < math.inf:
        raise ValueError(f"{text!r} is not above zero")
    return seconds


class Comparison(msgspec.Struct, frozen=True):
    """A bound such as `>= 200`. NaN meets no bound."""

    sign: str
    bound: float

    def holds(self, value: float) -> bool:
        """Return whether `value` meets the bound."""
        return not math.isnan(value) and _OPERATORS[self.sign](value, self.bound)

    def __str__(self) -> str:
        return f"{self.sign} {self.bound:g}"


def parse_comparison(text: str | float) -> Comparison:
    """Read `>= 200`, `< 9`, or a plain number, which means *equal*.

    Raises:
        ValueError: It is not a comparison.
    """
    match = _COMPARISON.fullmatch(str(text).strip())
    if isinstance(text, bool) or not match:
        raise ValueError(f"{text!r} is not a comparison; write '>= 200', '< 9' or a number")
    return Comparison(match[1] or "==", float(match[2]))


_MODIFIERS = ("ctrl+", "shift+", "alt+", "super+", "meta+", "hyper+")
_NAMED = frozenset(
    {
        "up", "down", "left", "right", "home", "end", "pageup", "pagedown", "insert", "delete", "backspace", "enter",
        "return", "escape", "tab", "space", "slash", "backslash", "at", "minus", "plus", "underscore",
        *(f"f{number}" for number in range(1, 25)),
    }
)  # fmt: skip


def is_key(word: str) -> bool:
    """Return whether `word` names a key, such as `j`, `enter`, `ctrl+w`, `question_mark`."""
    while word.startswith(_MODIFIERS):
        word = word.partition("+")[2]
    if len(word) == 1 or word in _NAMED:
        return True
    try:
        unicodedata.lookup(word.replace("_", " "))
    except KeyError:
        return False
    return True
