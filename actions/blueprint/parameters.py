"""The operator's choices, bound to a blueprint: checked, with derived values, rules and skipped stages."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

import msgspec

from actions.base.errors import Mistakes, ParameterError, UnknownNameError, nearest_hint
from actions.base.patterns import PatternError, compile_pattern
from actions.blueprint.model import Blueprint, Choice, Derived, Lookup, Operand, Parameter, ParameterRule, ParameterType
from actions.blueprint.parts import REFERENCE, ParameterCondition, Scalar
from actions.blueprint.stages import AnyStage
from actions.blueprint.targets import argument_text
from actions.fleet.instance_types import GIB, InstanceTable, InstanceType

Values = Mapping[str, Scalar]


def derive(derived: Mapping[str, Derived], values: Values, instances: InstanceTable) -> dict[str, Scalar]:
    """All derived values, in order, each able to use those before it.

    Raises:
        ParameterError: A division by zero, or an instance type that the table does not list.
    """
    result: dict[str, Scalar] = {}
    for name, item in derived.items():
        result[name] = _value_of(name, item, {**values, **result}, instances)
    return result


def broken_rules(rules: tuple[ParameterRule, ...], values: Values) -> list[ParameterError]:
    """Return an error for each rule that does not hold, in the order of `rules`."""
    return [
        ParameterError(fill(rule.message, values), hint=fill(rule.hint, values))
        for rule in rules
        if not _holds(rule, values)
    ]


def fill(text: str, values: Values) -> str:
    """`text` with every `${name}` replaced. Unknown names stay: `load` has refused them."""
    return REFERENCE.sub(lambda match: argument_text(values.get(match[1], match[0])), text)


def operations_of(item: Derived) -> list[str]:
    """Return the operations that a derived value names; exactly one is right."""
    given = {
        "product": item.product,
        "sum": item.sum,
        "ceil_div": item.ceil_div,
        "floor_div": item.floor_div,
        "smallest": item.smallest,
        "largest": item.largest,
    }
    objects = {"lookup": item.lookup, "choose": item.choose}
    named = [name for name, operands in given.items() if operands]
    return named + [name for name, found in objects.items() if found is not None]


def relations_of(rule: ParameterRule) -> list[str]:
    """Return the relations that a rule names; exactly one is right."""
    given = {
        "equal": rule.equal,
        "at_most": rule.at_most,
        "divides": rule.divides,
        "one_of": rule.one_of,
        "unlike": rule.unlike,
    }
    return [name for name, operands in given.items() if operands]


def _value_of(name: str, item: Derived, values: Values, instances: InstanceTable) -> Scalar:
    if item.lookup is not None:
        return _looked_up(item.lookup, values, instances)
    if item.choose is not None:
        return _chosen(name, item.choose, values)
    operands = item.product or item.sum or item.smallest or item.largest or item.ceil_div or item.floor_div
    numbers = [_operand_number(operand, values) for operand in operands]
    if item.product:
        return math.prod(numbers)
    if item.sum:
        return sum(numbers)
    if item.smallest or item.largest:
        return min(numbers) if item.smallest else max(numbers)
    dividend, divisor = numbers
    if not divisor:
        raise ParameterError(f"{name} cannot be computed: {operands[1]} is 0.", hint="Choose another value.")
    return math.ceil(dividend / divisor) if item.ceil_div else math.floor(dividend / divisor)


def _chosen(name: str, choice: Choice, values: Values) -> Scalar:
    said, among = argument_text(values[choice.by]), choice.texts or choice.among
    if said not in among and choice.otherwise == "":
        raise ParameterError(
            f"{name} cannot be computed: {choice.by} is {said!r}.", hint=f"Choose one of {', '.join(among)}."
        )
    chosen = among.get(said, choice.otherwise)
    return chosen if choice.texts else _resolved(chosen, values)


def _looked_up(lookup: Lookup, values: Values, instances: InstanceTable) -> int:
    name = argument_text(values[lookup.instance])
    instance = instances.find(name)
    if instance is None:
        raise ParameterError(
            f"{lookup.instance} is {name!r}, which the instance table does not list.",
            hint="Choose a listed instance type.",
        )
    return _column(instance, lookup)


def _column(instance: InstanceType, lookup: Lookup) -> int:
    match lookup.column:
        case "gpu":
            return instance.gpus
        case "neuron":
            return instance.neuron_devices
        case "efa":
            return instance.efa_interfaces or 0
        case "efa_rdma":
            return int(instance.efa_reads_remotely)
        case "vcpu":
            return instance.vcpu
        case "memory_gib":
            return instance.memory_bytes // GIB


def _operand_number(operand: Operand, values: Values) -> int | float:
    value = _resolved(operand, values)
    if isinstance(value, str):
        raise ParameterError(f"{operand} is {value!r}, which is not a number.", hint="Choose a number.")
    return value


def _resolved(operand: Operand, values: Values) -> Scalar:
    return values.get(operand, operand) if isinstance(operand, str) else operand


def _holds(rule: ParameterRule, values: Values) -> bool:
    if rule.equal:
        first, second = (_resolved(operand, values) for operand in rule.equal)
        return first == second
    if rule.at_most:
        return _operand_number(rule.at_most[0], values) <= _operand_number(rule.at_most[1], values)
    if rule.divides:
        divisor, dividend = (_operand_number(operand, values) for operand in rule.divides)
        return divisor != 0 and dividend % divisor == 0
    if rule.unlike:
        text, pattern = rule.unlike
        return not compile_pattern(str(pattern)).fullmatch(argument_text(_resolved(text, values)))
    first, *others = (_resolved(operand, values) for operand in rule.one_of)
    return first in others


SECRET_REFERENCE = re.compile(r"^(?:env:[A-Za-z_][A-Za-z0-9_]*|file:/.+|secretsmanager:[A-Za-z0-9/_+=.@:-]+)$")

_TEXT_LIMIT = 1000
_NAMES_IN_A_SENTENCE = 12
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
        """Parameters with derived values: everything that `${name}` can name."""
        return {**self.values, **self.derived}

    def text(self, name: str, default: str = "") -> str:
        """A parameter as text; `default` if the blueprint has no such parameter."""
        return str(self.values.get(name, default))


def require_known(blueprint: Blueprint, given: Mapping[str, Scalar], *, preset: str = "") -> None:
    """Check that a preset and parameters exist, and that each given value may be one; the rest is not looked at.

    Raises:
        ParameterError, UnknownNameError: A name is unknown, or a value is not of its type or out of its bounds. Its
            `others` are all further mistakes.
    """
    mistakes = Mistakes()
    with mistakes.collected():
        _preset_values(blueprint, preset)
    _read_given(blueprint, given, mistakes)
    mistakes.require_none()


def read_known(blueprint: Blueprint, given: Mapping[str, Scalar], *, preset: str = "") -> dict[str, Scalar]:
    """Check as `require_known`, and return the given values as their parameters' types."""
    require_known(blueprint, given, preset=preset)
    return {name: read_value(name, blueprint.parameters[name], value) for name, value in given.items()}


def _read_given(blueprint: Blueprint, given: Mapping[str, Scalar], mistakes: Mistakes) -> None:
    """Collect the mistakes of names and values, in the order in which they were given."""
    for name, value in given.items():
        with mistakes.collected():
            read_value(name, _parameter(blueprint, name), value)


def _parameter(blueprint: Blueprint, name: str) -> Parameter:
    if name not in blueprint.parameters:
        raise ParameterError(f"{blueprint.id} has no parameter {name!r}.", hint=_other_names(name, blueprint))
    return blueprint.parameters[name]


def _other_names(name: str, blueprint: Blueprint) -> str:
    """Return a hint: the names with this title in the form, or that are written alike; all if they are few."""
    known = list(blueprint.parameters)
    title = " ".join(re.split(r"[\s_-]+", name.casefold()))
    titled = [known for known, one in blueprint.parameters.items() if one.title.casefold() == title]
    every = f"`eksml-tui blueprints show {blueprint.id}` lists its {len(known)} parameters."
    return nearest_hint(titled[0] if titled else name, titled or known, every)


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
        ParameterError, UnknownNameError: A name is unknown, a value is not of its type or out of its bounds, or a rule
            is broken. Its `others` are all further mistakes.
    """
    require_known(blueprint, given, preset=preset)
    chosen = {**_preset_values(blueprint, preset), **given}
    values = {
        name: read_value(name, parameter, chosen.get(name, parameter.default))
        for name, parameter in blueprint.parameters.items()
    }
    derived = derive(blueprint.derived, values, instances or InstanceTable.load())
    mistakes = Mistakes()
    mistakes.found += broken_rules(blueprint.rules, {**values, **derived})
    mistakes.require_none()
    return Binding(
        blueprint_id=blueprint.id,
        values=values,
        derived=derived,
        preset=preset,
        existing_cluster=existing_cluster,
        chosen=tuple(name for name in blueprint.parameters if name in given),
    )


def bind_words(
    blueprint: Blueprint, words: Iterable[str], *, preset: str = "", existing_cluster: bool = False
) -> Binding:
    """Do as `bind` with parameters as a command line has them, `name=value`.

    Raises:
        ParameterError, UnknownNameError: As `bind`, or a word has no `=`.
    """
    given: dict[str, Scalar] = {}
    mistakes = Mistakes()
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            given[name] = value
        else:
            mistakes.found.append(ParameterError(f"{word!r} is not a parameter.", hint="Write name=value."))
    if mistakes.found:
        with mistakes.collected():
            require_known(blueprint, given, preset=preset)
        mistakes.require_none()
    return bind(blueprint, given, preset=preset, existing_cluster=existing_cluster)


def read_value(name: str, parameter: Parameter, value: Scalar) -> Scalar:
    """Return a value as the parameter's type, within its bounds.

    Raises:
        ParameterError: It is of another type, or out of bounds. One sentence with the bounds.
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
    """Return the values that a parameter accepts, in words: `a whole number from 1 to 64`, `one of a, b`."""
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
        raise UnknownNameError(f"Blueprint {blueprint.id} has no preset {preset!r}.", hint=f"Its presets are: {known}.")
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
        hint = parameter.help if is_printable and parameter.help else _instead(name)
        raise ParameterError(f"{name} is {_shown(text)}; it must be {bounds_of(parameter)}.", hint=hint)
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


def makes_cluster(blueprint: Blueprint, binding: Binding) -> bool:
    """Return whether a run with these values makes its own cluster."""
    return not binding.existing_cluster and any(stage.own_cluster_only for stage in blueprint.stages)


def reason_to_skip(stage: AnyStage, binding: Binding) -> str:
    """Return the reason why a run with these values leaves the stage out, in a few words; empty if it does not."""
    if binding.existing_cluster and stage.own_cluster_only:
        return "the cluster is there"
    if stage.when is not None and not holds(stage.when, binding):
        return f"{stage.when.parameter} is {argument_text(binding.values[stage.when.parameter])}"
    return ""


def holds(condition: ParameterCondition | None, binding: Binding) -> bool:
    """Return whether a condition holds; `None` always does."""
    return condition is None or binding.values[condition.parameter] in condition.is_


def skipped_stages(blueprint: Blueprint, binding: Binding) -> frozenset[str]:
    """Return the ids of the stages that a run with these values leaves out."""
    return frozenset(stage.id for stage in blueprint.stages if reason_to_skip(stage, binding))
