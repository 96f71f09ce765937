"""Texts that a terminal would obey or hide, of every class that must never reach one."""

from __future__ import annotations

PAYLOADS = {
    "csi": "\x1b[2J",
    "csi-report": "\x1b[6n",
    "csi-cut": "\x1b[12",
    "osc-title-bel": "\x1b]0;PWN\x07",
    "osc-title-st": "\x1b]0;PWN\x1b\\",
    "osc-clipboard": "\x1b]52;c;UFdO\x07",
    "osc-link": "\x1b]8;;http://evil.test\x07PWN\x1b]8;;\x07",
    "osc-unterminated": "\x1b]0;PWN",
    "dcs": "\x1bP+q544e\x1b\\",
    "apc": "\x1b_Gf=100;PWN\x1b\\",
    "pm": "\x1b^PWN\x1b\\",
    "sos": "\x1bXPWN\x1b\\",
    "escape-alone": "\x1b",
    "colour": "\x1b[31m",
    "c0": "\x00\x07\x08\x0b\x0c\x0e\x0f",
    "del": "\x7f",
    "c1-csi": "\x9b2J",
    "c1-osc": "\x9d0;PWN\x9c",
    "bidi": "\u202e\u2066\u2069",
    "invisible": "\u200b\u200d\u2060\ufeff\u2028",
    "tags": "\U000e0041\U000e007f",
}
"""By class. Every one holds a character of `FORBIDDEN`."""

_RANGES = ((0, 0x20), (0x7F, 0xA0), (0x200B, 0x2010), (0x2028, 0x202F), (0x2060, 0x206A), (0xE0000, 0xE0080))
FORBIDDEN = {"\u061c", "\ufeff"}.union(*(map(chr, range(*ends)) for ends in _RANGES)) - {"\n", "\t", "\r"}
"""The characters that must not be in what is printed."""


def found_in(text: str) -> str:
    """The forbidden characters of a text, for a failure's message; empty if it is clean."""
    return " ".join(sorted(f"U+{ord(sign):04X}" for sign in FORBIDDEN & set(text)))
