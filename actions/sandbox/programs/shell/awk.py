"""`awk 'PROGRAM'` over its standard input: fields, sums, arrays and printf, as far as sums of counters need it.

Not here: concatenation, functions, `getline`, redirections, options. A program that needs them is refused.

Source: POSIX.1-2017, awk.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from actions.sandbox.programs.program import ProcessContext, Program, ProgramStep
from actions.sandbox.programs.shell.awk_parse import AwkError, Item, Node, parse_program

_MOST_STEPS = 1_000_000
_SPEC = re.compile(r"%(?:%|[-+ #0]*\d*(?:\.\d+)?([sdifgec]))")
_LEADING_NUMBER = re.compile(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_FAILED = 2
_WHOLE_LINE: Node = ["field", ["is", 0.0]]

Value = str | float


def awk(_context: ProcessContext, arguments: Sequence[str], given: str) -> Program:
    """Run `awk PROGRAM` on what comes in."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        yield ProgramStep(text="awk: the sandbox has `awk 'PROGRAM'` only, without options and files\n", is_error=True)
        return _FAILED
    try:
        machine = _Machine(parse_program(arguments[0]))
        code = machine.run(given)
    except AwkError as error:
        yield ProgramStep(text=f"awk: {error}\n", is_error=True)
        return _FAILED
    if machine.written:
        yield ProgramStep(text="".join(machine.written))
    return code


class _Exit(Exception):
    """`exit`."""


class _Next(Exception):
    """`next`."""


class _Machine:
    """A program with its variables."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        self._variables: dict[str, Value] = {"NR": 0.0, "NF": 0.0}
        self._arrays: dict[str, dict[str, Value]] = {}
        self._fields: list[str] = [""]
        self._steps = 0
        self._code = 0
        self.written: list[str] = []

    def run(self, given: str) -> int:
        """Run the program over the lines of a text; return its exit code."""
        try:
            self._all("BEGIN")
            for line in given.splitlines():
                self._variables["NR"] = _number(self._variables["NR"]) + 1
                self._fields = [line, *line.split()]
                self._variables["NF"] = float(len(self._fields) - 1)
                self._record()
        except _Exit:
            pass
        with contextlib.suppress(_Exit):
            self._all("END")
        return self._code

    def _record(self) -> None:
        try:
            for item in self._items:
                if item.when == "" and (item.pattern is None or self._holds(item.pattern)):
                    self._do(item.action)
        except _Next:
            pass

    def _all(self, when: str) -> None:
        for item in self._items:
            if item.when == when:
                self._do(item.action)

    def _do(self, node: Node) -> None:
        """Carry out a statement."""
        self._count()
        match node:
            case ["block", statements]:
                for one in statements:
                    self._do(one)
            case ["if", condition, then, other]:
                if self._holds(condition):
                    self._do(then)
                elif other is not None:
                    self._do(other)
            case ["for" | "in", *_]:
                self._loop(node)
            case ["print" | "printf", *_]:
                self._write(node)
            case ["exit", code]:
                self._code = int(_number(self._value(code))) if code is not None else self._code
                raise _Exit
            case ["next"]:
                raise _Next
            case _:
                self._value(node)

    def _loop(self, node: Node) -> None:
        match node:
            case ["for", first, condition, step, body]:
                self._do(first)
                while self._holds(condition):
                    self._do(body)
                    self._do(step)
            case ["in", name, array, body]:
                for key in list(self._arrays.get(array, {})):
                    self._variables[name] = key
                    self._do(body)

    def _write(self, node: Node) -> None:
        values = [self._value(one) for one in node[1] or [_WHOLE_LINE]]
        if node[0] == "print":
            self.written.append(" ".join(map(_text, values)) + "\n")
        else:
            self.written.append(_formatted(_text(values[0]), iter(values[1:])))

    def _holds(self, node: Node) -> bool:
        return _is_true(self._value(node))

    def _value(self, node: Node) -> Value:
        self._count()
        kind = node[0]
        if kind in _OPERATORS:
            return _OPERATORS[kind](self._value(node[1]), self._value(node[2]))
        match node:
            case ["is", str() | float() as value]:
                return value
            case ["name" | "field" | "element", *_]:
                return self._read(node)
            case ["set", place, sign, value]:
                return self._set(place, sign, self._value(value))
            case ["count", place, change, is_before]:
                before = _number(self._read(place))
                self._set(place, "=", before + change)
                return before + change if is_before else before
            case ["minus", operand]:
                return -_number(self._value(operand))
        return float(self._truth(node))

    def _truth(self, node: Node) -> bool:
        match node:
            case ["regex", pattern]:
                return pattern.search(self._fields[0]) is not None
            case ["match", operand, pattern, is_wanted]:
                return (pattern.search(_text(self._value(operand))) is not None) is is_wanted
            case ["not", operand]:
                return not self._holds(operand)
            case ["and", left, right]:
                return self._holds(left) and self._holds(right)
            case ["or", left, right]:
                return self._holds(left) or self._holds(right)
        raise AwkError(f"{node[0]} has no value")

    def _read(self, place: Node) -> Value:
        match place:
            case ["name", name]:
                return self._variables.get(name, "")
            case ["element", name, key]:
                return self._arrays.setdefault(name, {}).setdefault(_text(self._value(key)), "")
            case ["field", number]:
                index = int(_number(self._value(number)))
                return self._fields[index] if 0 <= index < len(self._fields) else ""
        raise AwkError("only variables, elements and fields have a value of their own")

    def _set(self, place: Node, sign: str, value: Value) -> Value:
        if sign != "=":
            value = _OPERATORS[sign[0]](self._read(place), value)
        match place:
            case ["name", name]:
                self._variables[name] = value
            case ["element", name, key]:
                self._arrays.setdefault(name, {})[_text(self._value(key))] = value
            case _:
                raise AwkError("the sandbox's awk cannot change fields")
        return value

    def _count(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise AwkError("the program does not end")


def _formatted(form: str, values: Iterator[Value]) -> str:
    def one(found: re.Match[str]) -> str:
        kind = found.group(1)
        if not kind:
            return "%"
        value = next(values, "")
        spec = found.group().replace("i", "d")
        return spec % (_text(value) if kind in "sc" else int(_number(value)) if kind in "di" else _number(value))

    return _SPEC.sub(one, form)


def _number(value: Value) -> float:
    """Return the number at the beginning of a value, 0 without one."""
    if isinstance(value, float):
        return value
    found = _LEADING_NUMBER.match(value)
    return float(found.group()) if found else 0.0


def _text(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:.6g}" if value % 1 else str(int(value))


def _is_true(value: Value) -> bool:
    return bool(value) if isinstance(value, float) else bool(_number(value) if _is_numeric(value) else value)


def _is_numeric(value: Value) -> bool:
    return isinstance(value, float) or _LEADING_NUMBER.fullmatch(value.rstrip()) is not None


def _compare(holds: Callable[[Any, Any], bool]) -> Callable[[Value, Value], float]:
    def compare(left: Value, right: Value) -> float:
        if _is_numeric(left) and _is_numeric(right):
            return float(holds(_number(left), _number(right)))
        return float(holds(_text(left), _text(right)))

    return compare


def _quotient(left: Value, right: Value) -> float:
    if not _number(right):
        raise AwkError("division by zero")
    return _number(left) / _number(right)


_OPERATORS: dict[str, Callable[[Value, Value], float]] = {
    "+": lambda left, right: _number(left) + _number(right),
    "-": lambda left, right: _number(left) - _number(right),
    "*": lambda left, right: _number(left) * _number(right),
    "/": _quotient,
    "==": _compare(lambda left, right: left == right),
    "!=": _compare(lambda left, right: left != right),
    "<": _compare(lambda left, right: left < right),
    ">": _compare(lambda left, right: left > right),
    "<=": _compare(lambda left, right: left <= right),
    ">=": _compare(lambda left, right: left >= right),
}
