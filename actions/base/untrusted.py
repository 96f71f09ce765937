"""Text from outside (logs, labels, events, Terraform), filtered once, at the edge; secrets replaced in all output.

`clean_text` leaves SGR colours, `\\r`, `\\n` and `\\t` and removes every other control: CSI, OSC, DCS, APC, PM and
SOS sequences however they end, lone escapes, C0, DEL, C1, bidirectional and invisible format characters. `redact`
replaces text that looks like a credential, and the secrets that this process has read. A secret is found as it is,
and as addresses, JSON, Python, XML and base64 write it. Secrets shorter than four characters are left: they cannot be
distinguished from other text.

Source: CVE-2021-25743 (kubectl), GHSA-c38g-469g-cmgx (helm), CVE-2019-11250 (client-go); ECMA-48 for the sequences.
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
"""Bytes: each line of a longer secret that has so many is a secret by itself."""
_SHORTEST_CORE = 5
_BASE64_HEADS = (0, 2, 3)
"""Characters of base64 that depend on the bytes before a value, by the number of those bytes modulo 3."""


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
        """Drop all secrets."""
        self._written, self._pattern = {}, None

    @property
    def is_empty(self) -> bool:
        """True if there is none to look for."""
        return self._pattern is None

    def hide(self, text: str) -> str:
        """The text with every secret as the operator wrote it."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._written[match[0]], text)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Return the places of secrets in a text: from, to."""
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


_CONTROL = re.compile(
    r"""
    (?P<sgr>\x1b\[[0-9;]{0,64}m)                                  # the one sequence that stays
  | (?:\x1b\[|\x9b)[0-?]*[ -/]*(?:[@-~]|(?=[^ -~]|\Z))            # CSI, also cut off
  | (?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c|(?=\n|\x1b)|\Z)  # OSC, DCS, SOS, PM, APC
  | \x1b[ -/]*[0-~]?                                              # other escapes, and a lone one
  | [\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]                         # C0 without \t \n \r, DEL, C1
  | [\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]
    """,
    re.VERBOSE,
)
_SUSPECT = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_SGR = re.compile(r"\x1b\[[0-9;]*m")
_SECRET = re.compile(
    r"""
    k8s-aws-v1\.[A-Za-z0-9_-]{16,}
  | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
  | \beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)?
  | \bhf_[A-Za-z0-9]{20,}
  | \bnvapi-[A-Za-z0-9_-]{20,}
  | \bgh[pousr]_[A-Za-z0-9]{30,}
  | (?<=X-Amz-Signature=)[0-9a-f]{16,}
  | (?<=X-Amz-Security-Token=)[A-Za-z0-9%/+=_-]{16,}
  | (?i:(?<=authorization:\ bearer\ ))[^\s"']+
  | (?i:(?<=aws_secret_access_key=)|(?<=aws_secret_access_key\ =\ )|(?<=aws_session_token=))(?!\$)[^\s"']+
    """,
    re.VERBOSE,
)
_HARMLESS = bytes([*b"\t\n\r", *range(0x20, 0x7F)])
REDACTED = "«redacted»"


def clean_text(text: str) -> str:
    """Remove every control from `text` but SGR colours, `\\r`, `\\n` and `\\t`."""
    if _SUSPECT.search(text) is None:
        return text
    return _CONTROL.sub(lambda match: match["sgr"] or "", text)


def clean_lines(data: bytes) -> bytes:
    """`clean_text` of many lines at once, in UTF-8; bytes that are none become U+FFFD.

    No sequence reaches over a newline, so each line is cleaned as it would be by itself. Lines of plain ASCII, nearly
    all there are, are not copied.
    """
    if not data.translate(None, _HARMLESS):
        return data
    return clean_text(data.decode("utf-8", "replace")).encode()


def plain_text(text: str) -> str:
    """Like `clean_text`, and without colours, `\\r` shown as a space: for titles, tables and messages."""
    return _SGR.sub("", clean_text(text)).replace("\r", " ")


def is_plain(text: str) -> bool:
    """Return whether there is nothing in `text` that `clean_text` would remove."""
    return _SUSPECT.search(text) is None


def one_line(text: str, *, limit: int = 400) -> str:
    """`plain_text` on a single line of at most `limit` characters."""
    line = " ".join(plain_text(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def cleaned(value: object) -> object:
    """JSON with `plain_text` done to every text in it: its escapes bring back what was removed before it was read."""
    match value:
        case str():
            return plain_text(value)
        case dict():
            return {plain_text(key) if isinstance(key, str) else key: cleaned(item) for key, item in value.items()}
        case list() | tuple():
            return [cleaned(item) for item in value]
    return value


def redact(text: str) -> str:
    """Replace known secrets by their references, as the operator wrote them, and likely credentials by `«redacted»`."""
    return _SECRET.sub(REDACTED, KNOWN.hide(text))


def csv_cell(text: str) -> str:
    """Return a text as a cell of CSV: behind a `'`, if a spreadsheet would take it for a formula. Numbers stay.

    Source: OWASP, "CSV Injection": `=`, `+`, `-`, `@`, tab and the ends of lines begin one.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # Python's writer puts no quotes around the first
    if not text.startswith(("=", "+", "-", "@", "\t", "\n")):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text
