"""The parser of scripts, from YAML to a checked `Script`: every mistake is reported before anything runs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from actions.base.decoding import convert
from actions.base.errors import ConsoleError, InputError, Mistakes, ScriptError, nearest_hint
from actions.base.patterns import PatternError, compile_pattern
from actions.base.untrusted import KNOWN, redact
from actions.base.yamldoc import Document, load_document, read_input
from actions.cluster.diagnose.codes import Code
from actions.command.arguments import (
    LaunchArguments,
    ScreenshotArguments,
    TeardownArguments,
)
from actions.command.parse import decode, plain
from actions.command.verbs import (
    COMMANDS,
    Call,
    command_of,
)
from actions.fleet.instance_types import InstanceTable
from actions.run.state.view import RunState, StageState
from actions.script.model import (
    DEFAULT_DEADLINE_SECONDS,
    DEFAULT_SIZE,
    Conditions,
    LogCondition,
    Press,
    Script,
    ScriptStep,
    default_within,
    is_key,
    parse_comparison,
    parse_duration,
)

S = TypeVar("S", bound=msgspec.Struct)

VERSION = 1
TOP_KEYS = ("eksml-script", "vars", "deadline", "size", "nodes", "steps", "always")
"""The keys of a script."""
WORDS = ("wait", "expect", "press")
"""Steps that are not commands of the console."""
_VARIABLE = re.compile(r"\$\{(env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
CheckPlace = Callable[[Path], None]
CheckLaunch = Callable[[LaunchArguments], None]
"""Raises a `ConfigError` for a file that the script may not write."""
_SIZE = re.compile(r"(\d{2,3})x(\d{2,3})")


def load_script(
    file: Path,
    *,
    environment: Mapping[str, str] | None = None,
    check_place: CheckPlace | None = None,
    check_launch: CheckLaunch | None = None,
) -> Script:
    """Read and check a script. Values from the environment are secrets from here on, see `redact`.

    Args:
        file: The script.
        environment: The variables of `${env:NAME}`; those of the process by default.
        check_place: Refuses files that may not be written; `None` allows all.
        check_launch: Refuses launches of what there is not; `None` allows all.

    Raises:
        ScriptError: The script is wrong; with file, line, column and a hint. Its `others` are all further mistakes.
    """
    data = read_input(file, kind=ScriptError, may_be_pipe=True)
    variables = os.environ if environment is None else environment
    return parse_script(data, file=str(file), environment=variables, check_place=check_place, check_launch=check_launch)


def parse_script(
    data: bytes,
    *,
    file: str,
    environment: Mapping[str, str],
    check_place: CheckPlace | None = None,
    check_launch: CheckLaunch | None = None,
) -> Script:
    """Parse and check a script as `load_script` does, from bytes."""
    try:
        return _parsed(data, file, environment, _Checks(check_place, check_launch))
    except ScriptError as error:
        raise _redacted(error) from None


def _redacted(error: ConsoleError) -> ScriptError:
    """Return the mistake, with its others: its text, and that of its cause, may quote a value of the environment."""
    found = ScriptError(redact(error.message), hint=redact(error.hint))
    found.others = [_redacted(other) for other in error.others]
    return found


class _Checks(NamedTuple):
    """Checks of commands by what is around the script."""

    place: CheckPlace | None
    launch: CheckLaunch | None

    def check(self, arguments: object) -> None:
        """Refuse the arguments of a command.

        Raises:
            ConsoleError: They cannot be carried out here.
        """
        if isinstance(arguments, ScreenshotArguments) and self.place is not None:
            self.place(Path(arguments.file))
        if isinstance(arguments, LaunchArguments) and self.launch is not None:
            self.launch(arguments)


def _parsed(data: bytes, file: str, environment: Mapping[str, str], checks: _Checks) -> Script:
    document = load_document(data, file=file, kind=ScriptError)
    document.require_plain(ScriptError)
    top = document.value
    if not isinstance(top, dict):
        raise document.error(ScriptError, "a script must be a mapping.", hint="Start with 'eksml-script: 1'.")
    mistakes = Mistakes()
    for key in top:
        with mistakes.collected():
            if key not in TOP_KEYS:
                raise document.error(ScriptError, f"unknown key {key!r}.", key, hint=nearest_hint(key, TOP_KEYS))
    with mistakes.collected():
        if top.get("eksml-script") != VERSION:
            raise document.error(
                ScriptError,
                f"'eksml-script: {VERSION}' expected.",
                "eksml-script",
                hint="It names the language's version.",
            )
    variables: dict[str, Any] = {}
    with mistakes.collected():
        variables = _variables(document)
    parser = _Parser(document, environment, variables, checks, mistakes)
    deadline, size = 0.0, DEFAULT_SIZE
    with mistakes.collected():
        deadline = parser.duration(top.get("deadline", DEFAULT_DEADLINE_SECONDS), "deadline")
    with mistakes.collected():
        size = _size(document)
    nodes = str(top.get("nodes") or "")
    with mistakes.collected():
        try:
            InstanceTable.load().counts_in(nodes)
        except InputError as error:
            raise document.error(ScriptError, error.message, "nodes", hint=error.hint) from error
    steps, always = parser.steps("steps"), parser.steps("always")
    mistakes.require_none()
    return Script(file=file, deadline_seconds=deadline, size=size, nodes=nodes, steps=steps, always=always)


def _variables(document: Document) -> dict[str, Any]:
    variables = document.value.get("vars") or {}
    if not isinstance(variables, dict):
        raise document.error(ScriptError, "vars must be a mapping of names to values.", "vars")
    for name, value in variables.items():
        if isinstance(value, dict | list) or value is None:
            raise document.error(ScriptError, f"the variable {name!r} must be a single value.", "vars", name)
    return variables


def _size(document: Document) -> tuple[int, int]:
    text = document.value.get("size")
    if text is None:
        return DEFAULT_SIZE
    match = _SIZE.fullmatch(str(text))
    if not match:
        raise document.error(ScriptError, f"{text!r} is not a size.", "size", hint="Write columns x rows: 160x45.")
    return int(match[1]), int(match[2])


class _Parser:
    def __init__(
        self,
        document: Document,
        environment: Mapping[str, str],
        variables: Mapping[str, Any],
        checks: _Checks,
        mistakes: Mistakes,
    ) -> None:
        self._document = document
        self._mistakes = mistakes
        self._environment = environment
        self._variables = variables
        self._checks = checks

    def steps(self, key: str) -> tuple[ScriptStep, ...]:
        """Return the steps below a key, those without a mistake; the mistakes are collected."""
        found: list[ScriptStep] = []
        with self._mistakes.collected():
            listed = self._document.value.get(key) or []
            if not isinstance(listed, list):
                raise self._document.error(ScriptError, f"{key} must be a list of steps.", key)
            if not listed and key == "steps":
                raise self._document.error(ScriptError, "there are no steps.", key, hint="Add a list under 'steps:'.")
            for index, item in enumerate(listed):
                with self._mistakes.collected():
                    found.append(self._step(item, (key, index)))
        return tuple(found)

    def duration(self, value: Any, *path: str | int) -> float:
        try:
            return parse_duration(value if isinstance(value, int | float) else str(value))
        except ValueError as error:
            raise self._document.error(ScriptError, f"{error}.", *path) from error

    def _step(self, item: Any, path: tuple[str | int, ...]) -> ScriptStep:
        if isinstance(item, str):
            item = {item: None}
        if not isinstance(item, dict) or len(item) != 1:
            raise self._document.error(
                ScriptError,
                "a step must be one verb with its arguments.",
                *path,
                hint="Write '- wait: {stage: train}'.",
            )
        ((verb, raw),) = item.items()
        where = (*path, verb)
        known = (*WORDS, *(command.id for command in COMMANDS))
        if verb not in known:
            raise self._document.error(ScriptError, f"unknown verb {verb!r}.", *where, hint=nearest_hint(verb, known))
        value = self._substitute(raw, where)
        within = value.pop("within", "") if isinstance(value, dict) else ""
        action = self._action(verb, value, where)
        line, column = self._document.position(*where)
        return ScriptStep(
            verb=verb,
            action=action,
            line=line,
            column=column,
            within_seconds=self.duration(within, *where, "within") if within != "" else default_within(verb),
            text=_one_line(verb, raw),
        )

    def _action(self, verb: str, value: Any, where: tuple[str | int, ...]) -> Call | Conditions | Press:
        if verb == "press":
            press = self._convert({"keys": value} if isinstance(value, str) else value, Press, where)
            for key in press.keys.split():
                if not is_key(key):
                    raise self._document.error(
                        ScriptError, f"{key!r} is not a key.", *where, hint="Write keys as enter, ctrl+w, f1 or j."
                    )
            return press
        if verb in WORDS:
            conditions = self._convert(value, Conditions, where)
            self._check(conditions, where)
            return conditions
        command = command_of(verb)
        try:
            call = Call(command, decode(command, value))
            self._checks.check(call.arguments)
        except ConsoleError as error:
            raise self._wrong(error, where) from error
        if isinstance(call.arguments, TeardownArguments) and not call.arguments.confirm:
            raise self._document.error(
                ScriptError, "teardown needs the cluster's name.", *where, hint="Write {confirm: NAME}."
            )
        return call

    def _wrong(self, error: ConsoleError, where: tuple[str | int, ...]) -> ScriptError:
        """Return an error of a command, with its others, at the place of the command."""
        first, *others = (
            self._document.error(ScriptError, one.message, *where, hint=one.hint) for one in (error, *error.others)
        )
        first.others = others
        return first

    def _convert(self, value: Any, kind: type[S], where: tuple[str | int, ...]) -> S:
        if not isinstance(value, dict):
            raise self._document.error(ScriptError, f"{where[-1]} needs a mapping.", *where)
        known = [field.encode_name for field in msgspec.structs.fields(kind)]
        for key in value:
            if key not in known:
                raise self._document.error(
                    ScriptError, f"{where[-1]} has no {key!r}.", *where, key, hint=nearest_hint(key, known)
                )
        try:
            return convert(value, kind)
        except msgspec.ValidationError as error:
            raise self._document.error(ScriptError, f"{where[-1]}: {plain(error, kind)}.", *where) from error

    def _check(self, conditions: Conditions, where: tuple[str | int, ...]) -> None:
        def wrong(message: str, key: str, hint: str = "") -> ScriptError:
            return self._document.error(ScriptError, message, *where, key, hint=hint)

        if not _has_subject(conditions):
            raise self._document.error(
                ScriptError,
                f"{where[-1]} has no condition.",
                *where,
                hint=f"Give one of {', '.join(_SUBJECTS)}.",
            )
        for message, key, hint in (*_incomplete(conditions), *_unknown_codes(conditions)):
            raise wrong(message, key, hint)
        for key, word, states in _states(conditions):
            if word not in states:
                raise wrong(f"{word!r} is not a state.", key, f"Write one of {', '.join(states)}.")
        for key, amount in _amounts(conditions):
            try:
                parse_comparison(amount)
            except ValueError as error:
                raise wrong(f"{error}.", key) from error
        for key, pattern in _patterns(conditions):
            try:
                compile_pattern(pattern)
            except PatternError as error:
                raise wrong(f"{pattern[:60]!r} is not a usable regular expression: {error}.", key) from error

    def _substitute(self, value: Any, path: tuple[str | int, ...]) -> Any:
        if isinstance(value, dict):
            return {key: self._substitute(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self._substitute(item, (*path, index)) for index, item in enumerate(value)]
        if not isinstance(value, str):
            return value
        whole = _VARIABLE.fullmatch(value)
        if whole and not whole[1]:
            return self._lookup(whole, path)
        return _VARIABLE.sub(lambda match: str(self._lookup(match, path)), value)

    def _lookup(self, match: re.Match[str], path: tuple[str | int, ...]) -> Any:
        known = self._environment if match[1] else self._variables
        if match[2] not in known:
            place = "the environment" if match[1] else "vars"
            raise self._document.error(
                ScriptError, f"{match[0]} is not in {place}.", *path, hint=f"Set {match[2]} in {place}."
            )
        if match[1]:
            KNOWN.add(known[match[2]], match[0])
        return known[match[2]]


_SUBJECTS = (
    "stage", "run", "pods", "log", "metric", "text", "nodes", "accelerators", "why", "audit", "cluster", "region",
    "account",
)  # fmt: skip


def _has_subject(conditions: Conditions) -> bool:
    return any(getattr(conditions, name) not in ("", None) for name in _SUBJECTS)


def _incomplete(conditions: Conditions) -> Iterator[tuple[str, str, str]]:
    """Yield message, key and hint of each condition that lacks its other half."""
    if bool(conditions.stage) != bool(conditions.is_):
        yield "stage and is go together.", "stage", "Write {stage: train, is: succeeded}."
    if (conditions.step != "" or conditions.value != "" or conditions.of) and not conditions.metric:
        yield "step, value and of belong to metric.", "step", "Add metric: loss."
    if conditions.why and not (conditions.why.code or conditions.why.says):
        yield "why needs an expected diagnosis.", "why", "Write {of: train, code: OOM_KILLED}."


def _unknown_codes(conditions: Conditions) -> Iterator[tuple[str, str, str]]:
    code = conditions.why.code if conditions.why else ""
    if code and code not in Code.__members__:
        yield f"{code!r} is not a code of a diagnosis.", "why", nearest_hint(code, [known.value for known in Code])


def _states(conditions: Conditions) -> list[tuple[str, str, list[str]]]:
    """Return key, word and known words of each state that is given."""
    of_stage = [state.value for state in StageState]
    of_run = [state.value for state in RunState]
    return [given for given in (("is", conditions.is_, of_stage), ("run", conditions.run, of_run)) if given[1]]


def _amounts(conditions: Conditions) -> list[tuple[str, str | int | float]]:
    found: list[tuple[str, str | int | float]] = [("step", conditions.step), ("value", conditions.value)]
    if conditions.pods:
        found.append(("pods", conditions.pods.count))
    if conditions.nodes:
        found += [("nodes", conditions.nodes.count), ("nodes", conditions.nodes.ready)]
    if conditions.accelerators:
        found += [("accelerators", getattr(conditions.accelerators, name)) for name in ("busy", "idle", "total")]
    return [(key, amount) for key, amount in found if amount != ""]


def _patterns(conditions: Conditions) -> list[tuple[str, str]]:
    found = [("text", conditions.text)]
    if conditions.pods:
        found.append(("pods", conditions.pods.name))
    if conditions.why:
        found.append(("why", conditions.why.says))
    if conditions.log is not None:
        found.append(("log", conditions.log.match if isinstance(conditions.log, LogCondition) else conditions.log))
    return [(key, pattern) for key, pattern in found if pattern]


def _one_line(verb: str, raw: Any) -> str:
    """Return the step as written, with variables by name: values of the environment stay out of reports."""
    if raw is None:
        return verb
    if not isinstance(raw, dict):
        return f"{verb} {raw}"
    return f"{verb} " + " ".join(f"{key}={_short(value)}" for key, value in raw.items())


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_short(item)}" for key, item in value.items()) + "}"
    return str(value)
