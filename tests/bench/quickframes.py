"""The program as it is, but for frames as often as something changes: `python -m tests.bench.quickframes ARGUMENT…`.

Four frames a second are what an operator gets. Hours that are pressed into minutes would have a fiftieth of the frames
that they have in life; so here the screen is painted up to fifty times a second, at any cost.
"""

from __future__ import annotations

import sys

from tui.feeds import cluster as cluster_feed
from tui.feeds import ticker

_INTERVAL_SECONDS = 0.02


def main() -> int:
    """Run the program."""
    (ticker.Ticker.__init__.__kwdefaults__ or {})["interval_seconds"] = _INTERVAL_SECONDS
    ticker._SHARE = 1.0
    setattr(cluster_feed, "PAINT_INTERVAL_SECONDS", _INTERVAL_SECONDS)  # noqa: B010 - imported there by name
    from tui.cli import program

    return program()


if __name__ == "__main__":
    sys.exit(main())
