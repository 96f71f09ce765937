"""`eksml-tui read capture FILE`: what a capture holds."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from actions.base.errors import UsageError
from actions.base.untrusted import one_line
from actions.base.wording import duration
from actions.capture.reader import CaptureReader
from actions.replay.index import CaptureIndex, read_index
from tui.cli.tables.output import formatted

_ROWS = "changes"
_MOST_ACTS = 200


def read_capture(options: Namespace) -> int:
    """Print what a capture holds, as a table or in another form.

    Raises:
        UnreadableError: It is not a capture, damaged, or too large.
        UsageError: It is to be read from a pipe, or to be plotted.
    """
    if options.file == "-":
        raise UsageError("A capture is read from a file.", hint="Write read capture FILE.")
    if options.output == "plot":
        raise UsageError("A capture cannot be plotted.", hint="Show it with --replay FILE.")
    index = read_index(CaptureReader(Path(options.file)))
    try:
        document = summary_of(index)
    finally:
        index.close()
    if options.output == "table":
        sys.stdout.writelines(f"{line}\n" for line in _lines(document))
    elif options.output == "json":
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n")
    else:
        encoded = msgspec.json.encode(document).decode()
        sys.stdout.write(formatted(options.output, encoded, rows=_ROWS))
    return 0


def summary_of(index: CaptureIndex) -> dict[str, Any]:
    """Return what a capture holds: plain values, times in UTC, lengths in seconds."""
    began = index.began
    objects = Counter[str]()
    for key, timeline in index.sources.items():
        objects[key.path] += len(timeline.ops) - len(timeline.resets)
    ended = index.stopped or ("the console ended it" if not index.is_cut else "it is cut: the console was killed")
    return {
        "began": _time(began.wall),
        "seconds": round(index.length, 3),
        "ended": one_line(ended),
        "program": one_line(began.program),
        "bytes": index.packed_bytes,
        "clusters": sorted({one_line(cluster.context) for cluster in index.clusters}),
        "runs": sorted(index.runs),
        "requests": index.requests,
        "resources": {one_line(path): count for path, count in sorted(objects.items()) if count},
        "logs": len(index.logs),
        "programs": sum(map(len, index.programs.values())),
        "changes": [
            {"at": _time(began.wall + at), "method": one_line(method), "path": one_line(path)}
            for at, method, path in index.acts[:_MOST_ACTS]
        ],
    }


def _time(at: float) -> str:
    try:
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return "?"


def _lines(document: dict[str, Any]) -> Iterator[str]:
    yield f"began      {document['began']}, lasted {duration(document['seconds'])}; {document['ended']}"
    yield f"clusters   {', '.join(document['clusters']) or 'none'}"
    yield f"runs       {', '.join(document['runs']) or 'none'}"
    yield f"requests   {document['requests']:,}, logs {document['logs']:,}, programs {document['programs']:,}"
    for path, count in document["resources"].items():
        yield f"objects    {count:>9,}  {path}"
    for change in document["changes"]:
        yield f"changed    {change['at']}  {change['method']} {change['path']}"
