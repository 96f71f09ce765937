"""Binding: what the operator chose, checked, with everything that follows from it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import msgspec

from actions.base.errors import MissingError, ParameterError
from actions.base.patterns import PatternError, compile_pattern
from actions.blueprint.derive import broken_rules, derive
from actions.blueprint.model import Blueprint, Parameter, ParameterType
from actions.blueprint.parts import Scalar
from actions.fleet.instances import InstanceTable

SECRET_REFERENCE = re.compile(r"^(?:env:[A-Za-z_][A-Za-z0-9_]*|file:/.+|secretsmanager:[A-Za-z0-9/_+=.@:-]+)$")

_TEXT_LIMIT = 1000
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """The values of one run. Can be written as JSON: secrets are references."""

    blueprint_id: str
    values: dict[str, Scalar]
    """Every parameter."""
    derived: dict[str, Scalar]
    """Every derived value."""
    preset: str = ""
    existing_cluster: bool = False
    chosen: tuple[str, ...] = ()
    """The parameters that the operator set, in the blueprint's order."""

    @property
    def everything(self) -> dict[str, Scalar]:
        """Parameters with derived values: what `${name}` can name."""
        return {**self.values, **self.derived}

    def text(self, name: str, default: str = "") -> str:
        """A parameter as text; `default` if the blueprint has no such parameter."""
        return str(self.values.get(name, default))


def bind(
    blueprint: Blueprint,
    given: Mapping[str, Scalar],
    *,
    preset: str = "",
    existing_cluster: bool = False,
    instances: InstanceTable | None = None,
) -> Binding:
    """Check `given` against the blueprint: defaults, then the preset, then what the operator chose.

    Args:
        blueprint: Any blueprint.
        given: By parameter; texts, as from a command line, are read as the parameter's type.
        preset: Name of a preset; empty for none.
        existing_cluster: Whether the run uses a cluster that is there already.
        instances: The instance table; the one that ships with the program by default.

    Raises:
        ParameterError: A name is unknown, a value is not of its type or out of its bounds, or a rule is broken.
        MissingError: There is no such preset.
    """
    for name in given:
        if name not in blueprint.parameters:
            known = ", ".join(blueprint.parameters)
            raise ParameterError(f"{blueprint.id} has no parameter {name!r}.", hint=f"Its parameters are: {known}.")
    chosen = {**_preset_values(blueprint, preset), **given}
    values = {
        name: read_value(name, parameter, chosen.get(name, parameter.default))
        for name, parameter in blueprint.parameters.items()
    }
    derived = derive(blueprint.derived, values, instances or InstanceTable.load())
    errors = broken_rules(blueprint.rules, {**values, **derived})
    if errors:
        raise errors[0]
    return Binding(
        blueprint_id=blueprint.id,
        values=values,
        derived=derived,
        preset=preset,
        existing_cluster=existing_cluster,
        chosen=tuple(name for name in blueprint.parameters if name in given),
    )


def read_value(name: str, parameter: Parameter, value: Scalar) -> Scalar:
    """One value, as the parameter's type and within its bounds.

    Raises:
        ParameterError: It is neither. One sentence with the bounds.
    """
    match parameter.type:
        case ParameterType.INTEGER | ParameterType.NUMBER:
            read: Scalar = _number(name, parameter, value)
        case ParameterType.BOOLEAN:
            read = _boolean(name, value)
        case ParameterType.SECRET:
            return _reference(name, value)
        case ParameterType.TEXT:
            read = _text(name, parameter, value)
    if parameter.choices and read not in parameter.choices:
        raise ParameterError(f"{name} is {_shown(read)}; it must be {bounds_of(parameter)}.", hint=_instead(name))
    return read


def bounds_of(parameter: Parameter) -> str:
    """What a parameter accepts, in words: `a whole number from 1 to 64`, `one of a, b`."""
    if parameter.choices:
        return "one of " + ", ".join(str(choice) for choice in parameter.choices)
    match parameter.type:
        case ParameterType.INTEGER:
            return "a whole number" + _range(parameter)
        case ParameterType.NUMBER:
            return "a number" + _range(parameter)
        case ParameterType.BOOLEAN:
            return "true or false"
        case ParameterType.SECRET:
            return "a reference env:NAME, file:/PATH or secretsmanager:NAME"
        case ParameterType.TEXT:
            return f"a text of the form {parameter.pattern}" if parameter.pattern else "a text"


def _preset_values(blueprint: Blueprint, preset: str) -> Mapping[str, Scalar]:
    if not preset:
        return {}
    found = blueprint.presets.get(preset)
    if found is None:
        known = ", ".join(blueprint.presets) or "none"
        raise MissingError(f"Blueprint {blueprint.id} has no preset {preset!r}.", hint=f"Its presets are: {known}.")
    return found.set


def _number(name: str, parameter: Parameter, value: Scalar) -> int | float:
    number = _parsed(value, whole=parameter.type is ParameterType.INTEGER)
    low = -math.inf if parameter.minimum is None else parameter.minimum
    high = math.inf if parameter.maximum is None else parameter.maximum
    if number is None or not low <= number <= high:
        raise ParameterError(f"{name} is {_shown(value)}; it must be {bounds_of(parameter)}.", hint=_instead(name))
    return number


def _parsed(value: Scalar, *, whole: bool) -> int | float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value) if isinstance(value, str) and not whole else value
        if whole:
            number = int(number) if isinstance(number, str) or float(number).is_integer() else math.nan
    except (ValueError, OverflowError):
        return None
    return None if isinstance(number, str) or not math.isfinite(number) else number


def _boolean(name: str, value: Scalar) -> bool:
    word = str(value).strip().lower()
    if word in _TRUE | _FALSE and not isinstance(value, float):
        return word in _TRUE
    raise ParameterError(f"{name} is {_shown(value)}; it must be true or false.", hint=_instead(name))


def _reference(name: str, value: Scalar) -> str:
    text = str(value)
    if text and SECRET_REFERENCE.match(text) is None:  # the value itself is never repeated: it may be the secret
        raise ParameterError(
            f"{name} takes a reference to a secret, not the secret.",
            hint=f"Write {name}=env:NAME, file:/PATH or secretsmanager:NAME.",
        )
    return text


def _text(name: str, parameter: Parameter, value: Scalar) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    is_printable = text.isprintable() and len(text) <= _TEXT_LIMIT
    if not is_printable or not _has_form(name, parameter, text):
        raise ParameterError(f"{name} is {_shown(text)}; it must be {bounds_of(parameter)}.", hint=_instead(name))
    return text


def _has_form(name: str, parameter: Parameter, text: str) -> bool:
    if not parameter.pattern:
        return True
    try:
        return compile_pattern(parameter.pattern).fullmatch(text)
    except PatternError as error:
        raise ParameterError(
            f"the pattern of {name} cannot be used: {error}.", hint="Correct the blueprint."
        ) from error


def _range(parameter: Parameter) -> str:
    low, high = parameter.minimum, parameter.maximum
    if low is not None and high is not None:
        return f" from {low:.12g} to {high:.12g}"
    if low is not None:
        return f", at least {low:.12g}"
    return f", at most {high:.12g}" if high is not None else ""


def _shown(value: Scalar) -> str:
    return repr(value[:60]) if isinstance(value, str) else str(value)


def _instead(name: str) -> str:
    return f"Set {name} to such a value."
