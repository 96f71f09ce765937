"""What a key sends to a program on a terminal of type `linux`.

Source: terminfo(5) entry `linux`, ncurses 6.4.
"""

from __future__ import annotations

_NAMED = {
    "enter": b"\r",
    "tab": b"\t",
    "shift+tab": b"\x1b[Z",
    "backspace": b"\x7f",
    "escape": b"\x1b",
    "up": b"\x1b[A",
    "down": b"\x1b[B",
    "right": b"\x1b[C",
    "left": b"\x1b[D",
    "home": b"\x1b[1~",
    "insert": b"\x1b[2~",
    "delete": b"\x1b[3~",
    "end": b"\x1b[4~",
    "pageup": b"\x1b[5~",
    "pagedown": b"\x1b[6~",
    **{f"f{number}": b"\x1b[[" + bytes([64 + number]) for number in range(1, 6)},
    **{
        f"f{number}": f"\x1b[{code}~".encode()
        for number, code in zip(range(6, 13), (17, 18, 19, 20, 21, 23, 24), strict=True)
    },
    "ctrl+@": b"\x00",
    "ctrl+space": b"\x00",
    "ctrl+backslash": b"\x1c",
    "ctrl+right_square_bracket": b"\x1d",
    "ctrl+circumflex_accent": b"\x1e",
    "ctrl+underscore": b"\x1f",
}


def bytes_of(key: str, character: str | None) -> bytes:
    """What to send.

    Args:
        key: Textual's name of the key.
        character: What it prints, if anything.

    Returns:
        The bytes, or nothing for a key that such a terminal does not have.
    """
    if key in _NAMED:
        return _NAMED[key]
    modifier, _, letter = key.rpartition("+")
    if modifier == "ctrl" and len(letter) == 1 and "a" <= letter <= "z":
        return bytes([ord(letter) - 96])
    if modifier == "alt" and len(letter) == 1:
        return b"\x1b" + letter.encode()
    return character.encode() if character and character.isprintable() else b""
