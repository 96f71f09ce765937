"""Screenshots for pages, made smaller: `python -m tests.support.pictures FROM TO`.

A screenshot names every class by the terminal's number and clips every text to its line, because it may stand beside
others in one page. As a picture of its own it needs neither.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_LINE_CLIP = re.compile(r'<clipPath id="terminal-\d+-line-\d+">.*?</clipPath>\s*', re.DOTALL)
_CLIPPED = re.compile(r' clip-path="url\(#terminal-\d+-line-\d+\)"')
_TERMINAL = re.compile(r"\bterminal-\d+-")
_TAG = re.compile(r"<[^<>]+>")
_LONG_NUMBER = re.compile(r"(\d+\.\d\d?)\d+")
_BETWEEN = re.compile(r">\s+<")
LARGEST_BYTES = 120_000


def smaller(picture: str) -> str:
    """Return a picture that looks the same, in fewer bytes."""
    picture = _CLIPPED.sub("", _LINE_CLIP.sub("", picture))
    # of coordinates alone: those of texts are prices
    picture = _TAG.sub(lambda tag: _LONG_NUMBER.sub(r"\1", tag[0]), _TERMINAL.sub("t-", picture))
    return _BETWEEN.sub("><", picture)


def main() -> int:
    """Write each picture of a folder into another one, smaller."""
    source, target = map(Path, sys.argv[1:])
    target.mkdir(parents=True, exist_ok=True)
    for file in sorted(source.glob("*.svg")):
        data = smaller(file.read_text(encoding="utf-8"))
        (target / file.name).write_text(data, encoding="utf-8")
        sys.stdout.write(f"{target / file.name}: {len(data.encode())} of {file.stat().st_size} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
