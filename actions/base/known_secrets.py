"""Secrets that this process has read, so that nothing that it writes repeats them.

What reads one says so here; `actions.base.untrusted.redact`, through which messages, reports, logs and tracebacks go,
asks here. A secret is found as it is, and as addresses, JSON, Python, XML and base64 write it. Shorter ones than four
characters cannot be told from other text, and stay.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

SHORTEST = 4
_SHORTEST_LINE = 8
"""Of a secret with several lines, each line of that length is one by itself."""
_SHORTEST_CORE = 5
_BASE64_HEADS = (0, 2, 3)
"""How many characters of base64 the bytes before a value reach into, by their number modulo 3."""


class KnownSecrets:
    """Secrets to look for, each with the text to write in its place."""

    def __init__(self) -> None:
        self._written: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def add(self, value: str, written: str) -> None:
        """Remember a secret.

        Args:
            value: The secret.
            written: How the operator wrote it: `${env:NAME}`, `file:/PATH`.
        """
        forms = {form for form in _forms(value) if len(form) >= SHORTEST and form not in self._written}
        if len(value) < SHORTEST or not forms:
            return
        self._written.update(dict.fromkeys(forms, written))
        ordered = sorted(self._written, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, ordered)))

    def forget(self) -> None:
        """Know none."""
        self._written, self._pattern = {}, None

    def hide(self, text: str) -> str:
        """The text with every secret as the operator wrote it."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._written[match[0]], text)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where secrets stand in a text: from, to."""
        if self._pattern is not None:
            yield from (match.span() for match in self._pattern.finditer(text))


KNOWN = KnownSecrets()
"""Those of this process."""


def _forms(value: str) -> Iterator[str]:
    lines = [line.strip() for line in value.splitlines()]
    for text in (
        value,
        value.strip(),
        " ".join(value.split()),
        *(line for line in lines if len(line) >= _SHORTEST_LINE),
    ):
        yield text
        yield from (repr(text)[1:-1], re.escape(text))
        yield from (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
        yield from (html.escape(text), html.escape(text, quote=False))
        for encoded in (quote(text), quote(text, safe=""), quote_plus(text)):
            yield from (encoded, re.sub("%..", lambda match: match[0].lower(), encoded))
    yield from _in_base64(value.encode(errors="surrogateescape"))


def _in_base64(value: bytes) -> Iterator[str]:
    """As base64 writes it, by itself and wherever it stands in something longer."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(value).decode()
        for shift, head in enumerate(_BASE64_HEADS):
            whole = (shift + len(value)) * 8 // 6
            core = encode(b"\0" * shift + value).decode()[head:whole]
            if len(core) >= _SHORTEST_CORE:
                yield core
