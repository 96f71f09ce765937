"""An object as text for an editor, and what was changed in it. Pure.

Source: RFC 7386 (JSON merge patch: `null` removes, lists are replaced whole); `kubectl edit`, which puts the server's
message as a comment above the text and opens the editor again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from actions.base.errors import InputError
from actions.base.untrusted import plain_text
from actions.base.wording import folded

_WIDTH = 110
_HEAD = (
    "Edit the object. Lines that begin with # are left out. Save and leave the editor to send it;",
    "leave it unchanged, or empty, to change nothing.",
)
_LOOKS_TYPED = re.compile(r"[-+.~]?[0-9].*|[-+.~].*|(?i:0[xo].*|true|false|null|yes|no|on|off|y|n)|")
"""Texts that one of the versions of YAML reads as something else."""


def editable_text(document: Mapping[str, Any], remarks: Sequence[str] = (), *, of: str = "") -> str:
    """Return an object as YAML without managed fields, below remarks as comments; `parse_edited` reads it back.

    Args:
        document: The object.
        remarks: Why the editor is open again; empty the first time.
        of: The object and its cluster, in words.
    """
    comments = [line for remark in filter(None, (of, *_HEAD, *remarks)) for line in folded(plain_text(remark), _WIDTH)]
    return "".join(f"# {line}\n" for line in comments) + yaml_text(without_managed_fields(document))


def without_managed_fields(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without its managed fields."""
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping):
        return dict(document)
    return {**document, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def parse_edited(text: str) -> dict[str, Any] | None:
    """Read an edited object; `None` if nothing is left but comments.

    Raises:
        InputError: It is not YAML, or not an object; with line and column.
    """
    from actions.base.yamldoc import load_documents

    documents = load_documents(text.encode(), file="the edited text")
    if not documents:
        return None
    if len(documents) > 1:
        raise documents[1].error(InputError, "one object is edited at a time; this is a second one.")
    if not isinstance(documents[0].value, dict):
        raise documents[0].error(InputError, "this is not an object.")
    return documents[0].value


def changes_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that makes `after` of `before`; empty if they are equal."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        was = before.get(name)
        if isinstance(was, Mapping) and isinstance(value, Mapping):
            inner = changes_between(was, value)
            if inner:
                patch[name] = inner
        elif name not in before or was != value:
            patch[name] = value
    return patch


def changed(document: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with a merge patch put on it."""
    result = dict(document)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            was = result.get(name)
            result[name] = changed(was if isinstance(was, Mapping) else {}, value)
        else:
            result[name] = value
    return result


def yaml_text(document: Mapping[str, Any], *, is_compact: bool = False) -> str:
    """Return an object as YAML that every version reads alike; compact: what holds only scalars is on one line."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes texts so that every version of YAML reads them as texts, and no aliases."""

        def ignore_aliases(self, data: object) -> bool:
            del data
            return True

    def represented(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        style = "|" if "\n" in text and text == plain_text(text) else '"' if _LOOKS_TYPED.fullmatch(text) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represented)
    style = None if is_compact else False
    return str(
        yaml.dump(document, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH, default_flow_style=style)
    )
