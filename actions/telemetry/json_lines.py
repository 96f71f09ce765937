"""Log lines that are JSON objects, as loggers for machines write them: level, message and the other fields.

Names of fields as in zap, zerolog, slog, logrus, pino, bunyan, structlog, python-json-logger, ECS, OpenTelemetry and
Cloud Logging. A number stays as it is written, also `NaN`, which Python writes. Of names that stand twice both stay.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from actions.base.untrusted import plain_text, redact

LEVELS = ("level", "severity", "levelname", "lvl", "log.level", "severity_text", "severitytext")
"""Names of the field of the level, in small letters."""
_MESSAGES = ("message", "msg", "event", "body", "text")
_TIMES = ("ts", "time", "timestamp", "@timestamp", "asctime", "datetime", "date")
"""Fields that go to the end: the log view has a key for times."""
_PREFIX = re.compile(r"(?:\[[\w.:,-]{1,40}\](?:<std(?:out|err)>)?:? ?)?(?=\{)")
"""The tag that torchrun or mpirun puts before each line of a rank."""
_BARE = re.compile(r"[^\s\"'={}\[\],]{1,400}")
"""A text that needs no quotes."""
_DEEPEST = 4
"""Objects in objects are laid out to this depth, and stand as JSON below it."""
_MOST_FIELDS = 200


class JsonLine(NamedTuple):
    """A line laid out: everything in it, without controls and credentials, that its escapes may have hidden."""

    prefix: str
    """The text before the object; mostly empty."""
    level: str
    """In capitals, as it is written; empty if there is none, or if it is a number, which no two loggers share."""
    message: str
    fields: tuple[tuple[str, str], ...]
    """The other fields in their order, those with times last; an object in an object as `outer.inner`."""


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


class _Object(list[tuple[str, object]]):
    """The names and values of an object."""


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Object, parse_float=_Number, parse_int=_Number, parse_constant=_Number, strict=False
)


def read_json_line(text: str) -> JsonLine | None:
    """Return a line laid out; `None` if it is not a JSON object, or one without a field.

    Args:
        text: The line as it is visible, without colours.
    """
    begin = _PREFIX.match(text)
    if begin is None or not text.rstrip().endswith("}"):
        return None
    try:
        read = _DECODER.decode(text[begin.end() :])
        return _laid_out(begin[0], read) if isinstance(read, _Object) and read else None
    except (ValueError, RecursionError):
        return None


def _laid_out(prefix: str, read: _Object) -> JsonLine:
    fields = list(_flat(read, "", 0))
    level = _taken(fields, LEVELS)
    message = _taken(fields, _MESSAGES)
    fields.sort(key=lambda field: field[0].lower() in _TIMES)
    shown = [(_clean(name), _shown(value)) for name, value in fields[:_MOST_FIELDS]]
    if len(fields) > _MOST_FIELDS:
        shown.append(("…", f"{len(fields) - _MOST_FIELDS} more"))
    return JsonLine(prefix, _clean(level).upper(), " ".join(_clean(message).split()), tuple(shown))


def _flat(pairs: _Object, outer: str, depth: int) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for name, value in pairs:
        path = f"{outer}{name}"
        if isinstance(value, _Object) and value and depth < _DEEPEST:
            found += _flat(value, f"{path}.", depth + 1)
        else:
            found.append((path, value))
    return found


def _taken(fields: list[tuple[str, object]], names: tuple[str, ...]) -> str:
    """Take the field of the first of some names that is a text out of the fields; empty if there is none."""
    for wanted in names:
        for at, (name, value) in enumerate(fields):
            if name.lower() == wanted and isinstance(value, str) and not isinstance(value, _Number) and value.strip():
                del fields[at]
                return value
    return ""


def _shown(value: object) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, str):
        text = _clean(value)
        return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)
    return _clean(_compact(value))


def _compact(value: object) -> str:
    """Return JSON without spaces, of what may hold numbers as they were written."""
    match value:
        case _Number():
            return str(value)
        case _Object():
            return f"{{{','.join(f'{json.dumps(name, ensure_ascii=False)}:{_compact(one)}' for name, one in value)}}}"
        case list():
            return f"[{','.join(map(_compact, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _clean(text: str) -> str:
    return redact(plain_text(text))
