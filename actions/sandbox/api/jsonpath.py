"""The JSON paths of a CRD's `additionalPrinterColumns`.

Source: k8s.io/client-go `util/jsonpath`: fields, indexes, wildcards and equality filters; nothing else occurs there.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from actions.sandbox.api.codec import dig

_STEP = re.compile(
    r"""\.(?P<field>(?:\\.|[^.\[\\])+)
      | \['(?P<quoted>[^']*)'\]
      | \[\?\(@\.(?P<filter>[^=\s]+)\s*==\s*["'](?P<value>[^"']*)["']\)\]
      | \[(?P<index>-?\d+)(?P<slice>:)?\]
      | (?P<all>\[\*\])""",
    re.VERBOSE,
)


@lru_cache(maxsize=512)
def _parsed(path: str) -> tuple[tuple[str, str, str], ...]:
    """Steps as (kind, argument, value); empty if the path is not understood."""
    steps, place = [], 0
    while place < len(path):
        match = _STEP.match(path, place)
        if match is None:
            return ()
        kind = match.lastgroup or ""
        if match["filter"] is not None:
            steps.append(("filter", match["filter"], match["value"]))
        elif match["index"] is not None:
            steps.append(("index", match["index"], ""))
        elif match["field"] is not None:
            steps.append(("field", match["field"].replace("\\", ""), ""))
        else:
            steps.append(("field", match["quoted"], "") if kind == "quoted" else ("all", "", ""))
        place = match.end()
    return tuple(steps)


def _step(values: list[Any], kind: str, argument: str, value: str) -> list[Any]:
    if kind == "field":
        return [one[argument] for one in values if isinstance(one, dict) and argument in one]
    lists = [one for one in values if isinstance(one, list)]
    if kind == "all":
        return [item for one in lists for item in one]
    if kind == "index":
        place = int(argument)
        return [one[place] for one in lists if -len(one) <= place < len(one)]
    steps = argument.split(".")
    return [item for one in lists for item in one if dig(item, *steps) == value]


def find(body: object, path: str) -> list[Any]:
    """Every value at `path`, e.g. `.status.conditions[?(@.type=="Ready")].status`."""
    values = [body]
    for kind, argument, value in _parsed(path):
        values = _step(values, kind, argument, value)
    return values if _parsed(path) else []
