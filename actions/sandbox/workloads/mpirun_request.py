"""The command line of Open MPI's `mpirun`: options first, then the program of each process.

Source: Open MPI 4.1, `orterun` manual page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

_ONE_VALUE = frozenset(
    {"np", "n", "c", "N", "npernode", "x", "wdir", "wd", "bind-to", "map-by", "rank-by", "host", "H", "hostfile"}
    | {"machinefile", "prefix", "path", "output-filename"}
)
_TWO_VALUES = frozenset({"mca", "gmca"})
_SAME = {"n": "np", "c": "np", "npernode": "N", "wd": "wdir", "machinefile": "hostfile", "H": "host"}


class Request(msgspec.Struct, frozen=True):
    """What a command line asks for."""

    command: tuple[str, ...]
    processes: int | None
    per_node: int | None
    exported: Mapping[str, str | None]
    """Variables for the processes; `None` for the launcher's own value."""
    folder: str
    hostfile: str
    """Empty for the default one."""
    hosts: tuple[str, ...]
    is_tagged: bool
    as_root: bool
    oversubscribe: bool


def request_of(argv: Sequence[str]) -> Request:
    """Read the arguments after the program's name; the command is what follows the options.

    Raises:
        ValueError: A number is none.
    """
    words = list(argv)
    options: dict[str, str] = {}
    exported: dict[str, str | None] = {}
    while words and words[0].startswith("-"):
        option, _, value = words.pop(0).lstrip("-").partition("=")
        if option in _TWO_VALUES:
            del words[:2]
            continue
        if option in _ONE_VALUE and not value:
            value = words.pop(0) if words else ""
        if option == "x":
            name, is_given, text = value.partition("=")
            exported[name] = text if is_given else None
        options[_SAME.get(option, option)] = value
    per_node = options.get("N") or _per_node(options.get("map-by", ""))
    return Request(
        command=tuple(words),
        processes=int(options["np"]) if "np" in options else None,
        per_node=int(per_node) if per_node else None,
        exported=exported,
        folder=options.get("wdir", ""),
        hostfile=options.get("hostfile", ""),
        hosts=tuple(filter(None, options.get("host", "").split(","))),
        is_tagged="tag-output" in options,
        as_root="allow-run-as-root" in options,
        oversubscribe="oversubscribe" in options,
    )


def _per_node(mapping: str) -> str:
    """The number in `ppr:8:node`, empty for any other mapping."""
    return mapping.split(":")[1] if mapping.startswith("ppr:") else ""
