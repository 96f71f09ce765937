"""The small parts that parameters, stages and presets of a blueprint share, such as targets; and a problem of one."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from actions.base.errors import BlueprintError

Scalar = bool | int | float | str
"""The value of a parameter. A secret is a text: a reference such as `env:NGC_API_KEY`, never the secret itself."""

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
"""Name of a parameter, a derived value or an output."""

StageId = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9-]{0,39}$")]

REFERENCE = re.compile(r"\$\{([a-z][a-z0-9_]*)\}")
"""`${name}`: the value of a parameter or of a derived value. Nothing else is ever put into a text."""

OUTPUT_REFERENCE = re.compile(r"\$\{([a-z][a-z0-9-]*)\.([a-z][a-z0-9_]*)\}")
"""`${stage.output}`: an output of an earlier stage, in the few keys that are documented to take it."""

EXPECTATION = r"^[0-9]+(?:\.[0-9]+)?[smhd]\.\.[0-9]+(?:\.[0-9]+)?[smhd]$"

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything in a blueprint: immutable, and strict about unknown keys."""


class Expectation:
    """A usual duration, e.g. `35m..45m`.

    Args:
        low_seconds: The shorter end.
        high_seconds: The longer end, never less than `low_seconds`.
    """

    __slots__ = ("high_seconds", "low_seconds")

    def __init__(self, low_seconds: float, high_seconds: float) -> None:
        self.low_seconds = low_seconds
        self.high_seconds = high_seconds

    @classmethod
    def parse(cls, text: str) -> Expectation:
        """Read `LOW..HIGH`, each a number with one of the units s, m, h, d.

        Raises:
            ValueError: It has another form, or the ends are the wrong way round.
        """
        if re.match(EXPECTATION, text) is None:
            raise ValueError(f"{text!r} is not an expectation; write for example 35m..45m")
        low, high = (float(end[:-1]) * _SECONDS[end[-1]] for end in text.split(".."))
        if low > high:
            raise ValueError(f"{text!r} has its longer end first")
        return cls(low, high)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expectation):
            return NotImplemented
        return (self.low_seconds, self.high_seconds) == (other.low_seconds, other.high_seconds)

    def __hash__(self) -> int:
        return hash((self.low_seconds, self.high_seconds))

    def __repr__(self) -> str:
        return f"Expectation({self.low_seconds:g}, {self.high_seconds:g})"


class ParameterCondition(Part, frozen=True, kw_only=True):
    """A choice of the operator's on which a stage or a check depends."""

    parameter: Name
    is_: tuple[Scalar, ...] = msgspec.field(name="is")
    """The values of the parameter for which it holds."""


class FieldTarget(Part, frozen=True, kw_only=True):
    """A field of a file that a value sets. It must exist exactly once.

    Either `tfvar` alone, or `file`, `kind`, `name` and one of: `path`; `path` with `arg`, for a word of a text such as
    a command line; `container` with `arg`; `container` with `env`.
    """

    file: str = ""
    """Path of a manifest, relative to the blueprint's folder."""
    kind: str = ""
    name: str = ""
    """`metadata.name` of the object in that file."""
    path: str = ""
    """Dotted path to a field that is there: `spec.pytorchReplicaSpecs.Worker.replicas`; list items by index `[0]`;
    keys with dots in quotes: `metadata.labels."eksml.dev/x"`."""
    container: str = ""
    arg: str = ""
    """Beginning of the one item of `command` or `args`, or with `path` of the one word, that is set: what follows it is
    replaced."""
    env: str = ""
    """Name of the one environment variable whose `value` is set."""
    tfvar: str = ""
    """Variable of the Terraform root of a terraform stage."""
    stage: str = ""
    """With `tfvar`: the one stage it is for. Empty: every stage whose root declares the variable."""
    format: str = ""
    """The form of the value: a text with exactly one `%s`, `%d` or `%0Nd`. Empty: the value itself."""


class OutputTarget(FieldTarget, frozen=True, kw_only=True):
    """A target that is set from what an earlier stage reported."""

    source: str = msgspec.field(name="from")
    """`stage.output`."""


class ObjectName(Part, frozen=True, kw_only=True):
    """A Kubernetes object."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    """Empty: cluster scope, or the run's namespace for namespaced kinds."""


Where = tuple[str | int, ...]


class BlueprintProblem(msgspec.Struct, frozen=True):
    """A mistake, a sentence for the operator, and its place."""

    where: Where
    """Path in the blueprint with its components."""
    message: str = ""
    hint: str = ""
    error: BlueprintError | None = None
    """Instead of a message: an error of another file, with its own position."""
