"""Targets: finding the one field that a value sets, in objects read from manifests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from actions.base.errors import BlueprintError, nearest_hint
from actions.blueprint.parts import FieldTarget, Scalar

Manifest = dict[str, Any]
"""A Kubernetes object as plain data."""

_STEP = re.compile(r'\.?(?:"(?P<quoted>[^"]+)"|\[(?P<index>[0-9]+)\]|(?P<key>[^."\[\]]+))')
_TEMPLATE_KEYS = ("template", "submitterPodTemplate", "leaderTemplate", "workerTemplate")
_FORMAT = re.compile(r"%(?:%|s|d|0[1-9]d)")


class Slot:
    """A place in a manifest: a key of a mapping or an item of a list.

    Args:
        parent: The mapping or list.
        key: Key or index, present in `parent`.
        prefix: What stays in front of the value, for arguments such as `trainer.devices=4`.
        is_text: Whether only a text may stand there.
    """

    def __init__(self, parent: Any, key: str | int, *, prefix: str = "", is_text: bool = False) -> None:
        self._parent = parent
        self._key = key
        self._prefix = prefix
        self._is_text = is_text

    def read(self) -> object:
        """Return the present value, without the prefix."""
        value: object = self._parent[self._key]
        return value.removeprefix(self._prefix) if isinstance(value, str) else value

    def write(self, value: Any) -> None:
        """Put `value` there."""
        self._parent[self._key] = self._prefix + argument_text(value) if self._is_text else value


class WordSlot(Slot):
    """A word of a text that bears a whole command line; the word begins with `prefix`."""

    def __init__(self, parent: Any, key: str | int, *, prefix: str) -> None:
        super().__init__(parent, key, prefix=prefix, is_text=True)
        self._word = re.compile(rf"(?<!\S){re.escape(prefix)}(\S*)")

    def count(self) -> int:
        """Return the number of words that begin so."""
        return len(self._word.findall(str(self._parent[self._key])))

    def read(self) -> object:
        """Return the present value, without the prefix."""
        found = self._word.search(str(self._parent[self._key]))
        return found[1] if found else ""

    def write(self, value: Scalar) -> None:
        """Put `value` behind the prefix, in the text as it is by now."""
        self._parent[self._key] = self._word.sub(lambda _: self._prefix + argument_text(value), self._parent[self._key])


def argument_text(value: Scalar) -> str:
    """A value as it stands in an argument or an environment variable; booleans in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def target_value(value: Scalar, pattern: str) -> Scalar:
    """The value as the target's `format` writes it; the value itself if `pattern` is empty."""
    if not pattern:
        return value
    return pattern % (argument_text(value) if "%s" in pattern else value)


def is_format(pattern: str) -> bool:
    """Return whether a text is a target's `format`: exactly one `%s`, `%d` or `%0Nd`, any number of `%%`."""
    found = _FORMAT.findall(pattern)
    return pattern.count("%") == sum(part.count("%") for part in found) and len([p for p in found if p != "%%"]) == 1


def find(target: FieldTarget, objects: Sequence[Manifest]) -> Slot:
    """Return the one slot that `target` names among the objects of its file.

    Raises:
        BlueprintError: It matches nothing, or more than once. The error bears no position: the caller adds it.
    """
    manifest = _object(target, objects)
    slots = list(_slots(target, manifest))
    if not slots and target.path and not target.container and (hint := _way_out(target, manifest)):
        raise BlueprintError(f"the target {describe(target)} matches nothing.", hint=hint)
    return only(slots, describe(target))


def _way_out(target: FieldTarget, manifest: Manifest) -> str:
    """Return what would match instead of a path that does not; empty if nothing is like it."""
    for parent, key in _places(target.path, manifest):
        words = parent[key] if isinstance(parent[key], list) else ()
        found = [index for index, word in enumerate(words) if str(word).startswith(target.arg)]
        if target.arg and found:
            percent = target.arg.replace("%", "%%")
            return f"That is a list: write path: {target.path}[{found[0]}] and format: '{percent}%s', without arg."
        return ""
    node: Any = manifest
    for step in _steps(target.path):
        if not _has(node, step):
            return nearest_hint(str(step), [*node]) if isinstance(node, dict) and isinstance(step, str) else ""
        node = node[step]
    return ""


def write_into(target: FieldTarget, objects: Sequence[Manifest], value: Any) -> None:
    """Write a value of any form where `target` has a path; a list or mapping also under a key that was not there.

    Raises:
        BlueprintError: As of `find`.
    """
    for parent, key in _last_steps(target.path, _object(target, objects)):
        if isinstance(value, (dict, list)) and isinstance(parent, dict):
            parent.setdefault(key, None)
    find(target, objects).write(value)


def only(slots: Sequence[Slot], what: str) -> Slot:
    """The single item of `slots`.

    Raises:
        BlueprintError: There are none, or several.
    """
    if len(slots) == 1:
        return slots[0]
    found = "matches nothing" if not slots else f"matches {len(slots)} times"
    raise BlueprintError(f"the target {what} {found}.", hint="A target must match exactly once.")


def describe(target: FieldTarget) -> str:
    """A target in words: `Job/uniref50-download env NUM_CSV_FILES in manifests/data.yaml`."""
    if target.tfvar:
        return f"Terraform variable {target.tfvar}"
    field = f"argument {target.arg}" if target.arg else f"env {target.env}" if target.env else target.path
    if target.arg and target.path:
        field = f"word {target.arg} of {target.path}"
    container = f" container {target.container}" if target.container else ""
    return f"{target.kind}/{target.name}{container} {field} in {target.file}"


def form_error(target: FieldTarget) -> str:
    """Return the mistake in the combination of a target's keys; empty if there is none."""
    if target.tfvar:
        alone = not (target.file or target.kind or target.name or target.path or target.container)
        return "" if alone else "a target with tfvar has no file, kind, name, path or container."
    if not (target.file and target.kind and target.name):
        return "a target needs tfvar, or file, kind and name."
    is_word = bool(target.path and target.arg and not target.container and not target.env)
    if not is_word and sum(map(bool, (target.path, target.arg, target.env))) != 1:
        return "a target needs exactly one of path, arg and env, or path with arg for a word of a text."
    if not target.path and not target.container:
        return "a target with arg or env needs container."
    if target.format and not is_format(target.format):
        return f"the format {target.format!r} needs exactly one %s, %d or %0Nd."
    return ""


def containers_of(manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every container of an object, wherever its pod template stands."""
    for spec in pod_specs_of(manifest):
        for key in ("containers", "initContainers"):
            yield from spec.get(key) or ()


def pod_specs_of(manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every pod spec in an object: its own, or those of its templates."""
    if manifest.get("kind") == "Pod":
        yield manifest.get("spec") or {}
        return
    for template in templates_of(manifest):
        yield template.get("spec") or {}


def templates_of(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every pod template below `node`: a mapping under a key for one, whose spec has containers."""
    if isinstance(node, dict):
        for key, value in node.items():
            says_so = key in _TEMPLATE_KEYS and isinstance(value, dict)
            if says_so and "containers" in (value.get("spec") or {}):
                yield value
            else:
                yield from templates_of(value)
    elif isinstance(node, list):
        for item in node:
            yield from templates_of(item)


def _object(target: FieldTarget, objects: Sequence[Manifest]) -> Manifest:
    found = [
        item
        for item in objects
        if item.get("kind") == target.kind and (item.get("metadata") or {}).get("name") == target.name
    ]
    if len(found) == 1:
        return found[0]
    count = "no" if not found else str(len(found))
    raise BlueprintError(f"{target.file} has {count} {target.kind} named {target.name!r}.", hint="It must have one.")


def _slots(target: FieldTarget, manifest: Manifest) -> Iterator[Slot]:
    if not target.container:
        yield from _words(target, manifest) if target.arg else _at(target.path, manifest)
        return
    for container in containers_of(manifest):
        if container.get("name") != target.container:
            continue
        if target.path:
            yield from _at(target.path, container)
        elif target.arg:
            yield from _arguments(target.arg, container)
        else:
            yield from _variables(target.env, container)


def _words(target: FieldTarget, manifest: Manifest) -> Iterator[Slot]:
    for parent, key in _places(target.path, manifest):
        if isinstance(parent[key], str):
            slot = WordSlot(parent, key, prefix=target.arg)
            yield from [slot] * slot.count()


def _arguments(prefix: str, container: Mapping[str, Any]) -> Iterator[Slot]:
    for key in ("command", "args"):
        words = container.get(key) or []
        for index, word in enumerate(words):
            if isinstance(word, str) and word.startswith(prefix):
                yield Slot(words, index, prefix=prefix, is_text=True)


def _variables(name: str, container: Mapping[str, Any]) -> Iterator[Slot]:
    for variable in container.get("env") or ():
        if variable.get("name") == name and "value" in variable:
            yield Slot(variable, "value", is_text=True)


def _at(path: str, node: Any) -> Iterator[Slot]:
    for parent, key in _places(path, node):
        yield Slot(parent, key)


def _places(path: str, node: Any) -> Iterator[tuple[Any, str | int]]:
    return ((parent, key) for parent, key in _last_steps(path, node) if _has(parent, key))


def _last_steps(path: str, node: Any) -> Iterator[tuple[Any, str | int]]:
    """Yield where the last step of a path would be, if all before it is there."""
    steps = _steps(path)
    for step in steps[:-1]:
        if not _has(node, step):
            return
        node = node[step]
    if steps:
        yield node, steps[-1]


def _has(node: Any, step: str | int) -> bool:
    if isinstance(step, int):
        return isinstance(node, list) and step < len(node)
    return isinstance(node, dict) and step in node


def _steps(path: str) -> list[str | int]:
    steps: list[str | int] = []
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            return []
        index = match["index"]
        steps.append(int(index) if index is not None else match["quoted"] or match["key"])
        position = match.end()
    return steps
