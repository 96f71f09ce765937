"""Derived values and rules: arithmetic over parameters, from a closed set of operations."""

from __future__ import annotations

import math
from collections.abc import Mapping

from actions.base.errors import ParameterError
from actions.blueprint.model import Choice, Derived, Lookup, Operand, Rule
from actions.blueprint.parts import REFERENCE, Scalar
from actions.blueprint.targets import text_of
from actions.fleet.instances import GIB, InstanceTable, InstanceType

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


def broken_rules(rules: tuple[Rule, ...], values: Values) -> list[ParameterError]:
    """One error for each rule that does not hold, in the order of `rules`."""
    return [
        ParameterError(fill(rule.message, values), hint=fill(rule.hint, values))
        for rule in rules
        if not _holds(rule, values)
    ]


def fill(text: str, values: Values) -> str:
    """`text` with every `${name}` replaced. Unknown names stay: `load` has refused them."""
    return REFERENCE.sub(lambda match: text_of(values.get(match[1], match[0])), text)


def operations_of(item: Derived) -> list[str]:
    """Which operations a derived value names; exactly one is right."""
    given = {"product": item.product, "sum": item.sum, "ceil_div": item.ceil_div}
    objects = {"lookup": item.lookup, "choose": item.choose}
    named = [name for name, operands in given.items() if operands]
    return named + [name for name, found in objects.items() if found is not None]


def relations_of(rule: Rule) -> list[str]:
    """Which relations a rule names; exactly one is right."""
    given = {"equal": rule.equal, "at_most": rule.at_most, "divides": rule.divides, "one_of": rule.one_of}
    return [name for name, operands in given.items() if operands]


def _value_of(name: str, item: Derived, values: Values, instances: InstanceTable) -> Scalar:
    if item.lookup is not None:
        return _looked_up(item.lookup, values, instances)
    if item.choose is not None:
        return _chosen(name, item.choose, values)
    if item.product:
        return math.prod(_number(operand, values) for operand in item.product)
    if item.sum:
        return sum(_number(operand, values) for operand in item.sum)
    dividend, divisor = (_number(operand, values) for operand in item.ceil_div)
    if not divisor:
        raise ParameterError(f"{name} cannot be computed: {item.ceil_div[1]} is 0.", hint="Choose another value.")
    return math.ceil(dividend / divisor)


def _chosen(name: str, choice: Choice, values: Values) -> Scalar:
    said = text_of(values[choice.by])
    if said not in choice.among and choice.otherwise == "":
        raise ParameterError(
            f"{name} cannot be computed: {choice.by} is {said!r}.",
            hint=f"Choose one of {', '.join(choice.among)}.",
        )
    return _resolved(choice.among.get(said, choice.otherwise), values)


def _looked_up(lookup: Lookup, values: Values, instances: InstanceTable) -> int:
    name = text_of(values[lookup.instance])
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


def _number(operand: Operand, values: Values) -> int | float:
    value = _resolved(operand, values)
    if isinstance(value, str):
        raise ParameterError(f"{operand} is {value!r}, which is no number.", hint="Choose a number.")
    return value


def _resolved(operand: Operand, values: Values) -> Scalar:
    return values.get(operand, operand) if isinstance(operand, str) else operand


def _holds(rule: Rule, values: Values) -> bool:
    if rule.equal:
        first, second = (_resolved(operand, values) for operand in rule.equal)
        return first == second
    if rule.at_most:
        return _number(rule.at_most[0], values) <= _number(rule.at_most[1], values)
    if rule.divides:
        divisor, dividend = (_number(operand, values) for operand in rule.divides)
        return divisor != 0 and dividend % divisor == 0
    first, *others = (_resolved(operand, values) for operand in rule.one_of)
    return first in others
