"""Objects that are drawn when somebody looks: many of a kind that differ in a few words, in little memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from actions.sandbox.api.codec import Object, decode, encode
from actions.sandbox.api.resources import GroupResource
from actions.sandbox.api.store import Stored

Words: TypeAlias = Mapping[str, Callable[[int], str]]
"""For each gap, from an object's number to what stands there. Only what JSON writes as it is."""

_GAP = re.compile(rb"xx-(\w+?)-xx")
_SELECTED = {"metadata": ("name", "namespace", "labels"), "spec": ("nodeName", "unschedulable"), "status": ("phase",)}
"""The parts of an object that selectors look at."""


def gap(word: str) -> str:
    """A gap for a word, of letters that are allowed in names, labels and addresses."""
    return f"xx-{word}-xx"


class _Cut:
    """JSON with gaps, cut once."""

    def __init__(self, body: Object, words: Words) -> None:
        self._pieces: list[bytes] = _GAP.split(encode(body))
        self._gaps = [(place, words[self._pieces[place].decode()]) for place in range(1, len(self._pieces), 2)]

    def draw(self, number: int) -> bytes:
        pieces = self._pieces.copy()
        for place, word in self._gaps:
            pieces[place] = word(number).encode()
        return b"".join(pieces)


class Template:
    """An object with gaps.

    Args:
        body: The object; `gap(word)` anywhere in its texts is one.
        words: What stands in the gaps; `name`, `namespace` if it has one, `uid` and `version` among them.
    """

    def __init__(self, body: Object, words: Words) -> None:
        self.api_version = str(body["apiVersion"])
        self.words = words
        parts = ((part, body.get(part) or {}, names) for part, names in _SELECTED.items())
        outline = {part: {name: whole[name] for name in names if name in whole} for part, whole, names in parts}
        self._whole, self._outline = _Cut(body, words), _Cut(outline, words)

    def draw(self, number: int) -> bytes:
        """The object of that number as JSON."""
        return self._whole.draw(number)

    def outline(self, number: int) -> Object:
        """As much of it as selectors look at."""
        outline: Object = decode(self._outline.draw(number))
        return outline


class Drawn(Stored):
    """A stored object that consists of a template and a number.

    Args:
        key: Its type.
        template: What it looks like.
        number: Which one it is.
    """

    __slots__ = ("_number", "_template")
    _number: int
    _template: Template

    def __init__(self, key: GroupResource, template: Template, number: int) -> None:
        words = template.words
        namespace = words["namespace"](number) if "namespace" in words else ""
        place = {"namespace": namespace, "name": words["name"](number), "version": int(words["version"](number))}
        for field, value in (place | {"key": key, "_template": template, "_number": number}).items():
            object.__setattr__(self, field, value)

    @property
    def raw(self) -> bytes:
        return self._template.draw(self._number)

    @property
    def body(self) -> Object:
        decoded: Object = decode(self.raw)
        return decoded

    @property
    def outline(self) -> Object:
        return self._template.outline(self._number)

    @property
    def uid(self) -> str:
        return self._template.words["uid"](self._number)

    @property
    def api_version(self) -> str:
        return self._template.api_version

    @property
    def owner_uids(self) -> list[str]:
        return []
