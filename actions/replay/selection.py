"""Label and field selectors, applied to objects of a capture: the cluster that would apply them is not there.

Source: k8s.io/apimachinery `pkg/labels/selector.go`, `pkg/fields/selector.go`, v0.34.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from actions.base.decoding import json_decoder

_TERM = re.compile(r"[^,(]+(?:\([^)]*\))?")
_SET = re.compile(r"(?P<key>[^\s!=]+)\s+(?P<word>in|notin)\s*\((?P<values>[^)]*)\)")
_EQUAL = re.compile(r"(?P<key>[^\s!=]+)\s*(?P<sign>==|=|!=)\s*(?P<value>\S*)")


class _Term(NamedTuple):
    """One condition: the key has one of the values, or (`values` is `None`) there is one at all."""

    key: str
    values: frozenset[str] | None
    is_wanted: bool


class _Labels(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Labels = msgspec.field(default_factory=_Labels)


_labelled = json_decoder(_Labelled)


@lru_cache(64)
def _terms(selector: str) -> tuple[_Term, ...]:
    return tuple(_read(selector))


def _read(selector: str) -> Iterator[_Term]:
    for text in (match.strip() for match in _TERM.findall(selector)):
        if match := _SET.fullmatch(text):
            values = frozenset(value.strip() for value in match["values"].split(","))
            yield _Term(match["key"], values, match["word"] == "in")
        elif match := _EQUAL.fullmatch(text):
            yield _Term(match["key"], frozenset((match["value"],)), match["sign"] != "!=")
        elif text:
            yield _Term(text.lstrip("!"), None, not text.startswith("!"))


def _holds(term: _Term, value: str | None) -> bool:
    return ((value is not None) if term.values is None else (value in term.values)) is term.is_wanted


def _field(document: Any, path: str) -> str:
    for name in path.split("."):
        document = document.get(name) if isinstance(document, dict) else None
    if isinstance(document, bool):
        return "true" if document else "false"
    return "" if document is None else str(document)


def matches(raw: bytes, labels: str, fields: str) -> bool:
    """Return whether an object has the labels and fields that selectors ask for.

    Args:
        raw: The object, as JSON.
        labels: Label selector; empty for none.
        fields: Field selector; empty for none.
    """
    try:
        if labels:
            found: Mapping[str, str] = _labelled.decode(raw).metadata.labels or {}
            if not all(_holds(term, found.get(term.key)) for term in _terms(labels)):
                return False
        if fields:
            document = msgspec.json.decode(raw)
            return all(_holds(term, _field(document, term.key)) for term in _terms(fields))
    except msgspec.MsgspecError:
        return False
    return True
