"""A run's results as text: a table for people, JSON for programs."""

from __future__ import annotations

import msgspec

from actions.base.clock import format_rfc3339
from actions.run.results import Listing

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def results_table(listing: Listing) -> str:
    """A line for each file, then what they are together."""
    if not listing.files:
        return f"Nothing lies in {listing.folder} on {listing.claim} yet.\n"
    rows = [(size_text(file.size_bytes), f"{file.modified_at:%Y-%m-%d %H:%M}", file.path) for file in listing.files]
    width = max(len(size) for size, _, _ in rows)
    lines = [f"{size:>{width}}  {moment}  {path}" for size, moment, path in rows]
    more = "" if listing.is_complete else ", and more that are not listed"
    total = f"{len(rows)} files, {size_text(listing.size_bytes)}, in {listing.folder} on {listing.claim}{more}."
    return "\n".join([*lines, "", total]) + "\n"


def results_json(listing: Listing) -> str:
    """The listing as indented JSON."""
    document = {
        "folder": listing.folder,
        "claim": listing.claim,
        "complete": listing.is_complete,
        "size_bytes": listing.size_bytes,
        "files": [
            {"path": file.path, "size_bytes": file.size_bytes, "modified_at": format_rfc3339(file.modified_at)}
            for file in listing.files
        ],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def size_text(size_bytes: int) -> str:
    """A size with three digits or so: `512 MiB`."""
    size, unit = float(size_bytes), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 or size >= 100 else f"{size:.3g} {_UNITS[unit]}"
