"""Text from outside (logs, labels, events, Terraform), filtered once, at the edge.

`clean_text` leaves SGR colours, `\\r`, `\\n` and `\\t` and removes every other control: CSI, OSC, DCS, APC, PM and
SOS sequences however they end, lone escapes, C0, DEL, C1, bidirectional and invisible format characters.
`redact` replaces what looks like a credential, and what this process knows to be one.

Source: CVE-2021-25743 (kubectl), GHSA-c38g-469g-cmgx (helm), CVE-2019-11250 (client-go); ECMA-48 for the sequences.
"""

from __future__ import annotations

import re

from actions.base.known_secrets import KNOWN

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
  | (?i:(?<=aws_secret_access_key=)|(?<=aws_secret_access_key\ =\ )|(?<=aws_session_token=))[^\s"']+
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
    """Replace known secrets by how the operator wrote them, and what looks like a credential by `«redacted»`."""
    return _SECRET.sub(REDACTED, KNOWN.hide(text))
