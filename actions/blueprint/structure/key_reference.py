"""The page docs/blueprint-keys.md: every key of a blueprint, every component of the program, every Terraform root."""

from __future__ import annotations

import itertools
import re
import typing
from collections.abc import Iterator
from typing import Any

import msgspec

from actions.base.files import read_file, shipped_blueprints
from actions.base.yamldoc import load_document
from actions.blueprint.checks import AnyCheck, AnyLogCheck, Check, LogCheck
from actions.blueprint.model import Blueprint
from actions.blueprint.parts import Expectation
from actions.blueprint.source_files import CHECKS, SHARED, declarations_of
from actions.blueprint.stages import AnyStage, Stage
from actions.blueprint.structure.schema import field_types, key_docs, members_of, structs_of, words_of

_HEAD = """\
# Keys of a blueprint

Generated from the model and from `blueprints/common` by `make reference`. [Blueprints](blueprints.md) has how they work
together. A key without a default is needed.
"""
_COMPONENTS = """\
## Components of the program

Named in `uses`; what each has is taken by name. `blueprints/common/README.md` has their choices and traps.
"""
_ROOTS = """\
## Terraform roots

A stage of kind `terraform` names one as `root: common/terraform/NAME`. Variables in bold have no default.
"""
_FAMILIES = ((AnyStage, Stage, "Stage"), (AnyCheck, Check, "Check"), (AnyLogCheck, LogCheck, "Log check"))
"""Structures that a tag picks, with what they have in common."""
_NOT_OF_THE_FILE = frozenset({"folder"})
_NO_COMPONENTS = frozenset({"neuron-releases"})
_NAMED = ("parameters", "derived", "holdings", CHECKS, "secrets", "stages")


def reference_page() -> str:
    """Return the text of the page."""
    return "\n".join([_HEAD, *_structures(), *_components(), *_terraform_roots()]) + "\n"


def _structures() -> Iterator[str]:
    families = {member: family for family in _FAMILIES for member in typing.get_args(family[0])}
    shown: set[str] = set()
    for struct in structs_of(Blueprint):
        family = families.get(struct)
        if family is None:
            yield from _section(_title(struct), struct, frozenset())
            continue
        tag, common, name = str(struct.__struct_config__.tag_field), family[1], family[2]
        if name not in shown:
            shown.add(name)
            kinds = ", ".join(f"`{each.__struct_config__.tag}`" for each in typing.get_args(family[0]))
            yield from (f"## {name}", "", f"{_doc(common)} `{tag}` is one of {kinds}.", "")
            yield from _table(common, frozenset())
        yield from _section(f"{name} `{struct.__struct_config__.tag}`", struct, frozenset(field_types(common)))


def _section(title: str, struct: Any, without: frozenset[str]) -> Iterator[str]:
    yield from (f"## {title}", "", _doc(struct), "")
    yield from _table(struct, without | _NOT_OF_THE_FILE)


def _table(struct: Any, without: frozenset[str]) -> Iterator[str]:
    docs, kinds = key_docs(struct), field_types(struct)
    rows = [field for field in msgspec.structs.fields(struct) if field.encode_name not in without]
    if rows:
        yield from ("| key | takes | default | means |", "| --- | --- | --- | --- |")
        for field in rows:
            name = field.encode_name
            meaning = docs.get(name, "").replace("|", "\\|")
            yield f"| `{name}` | {_takes(kinds[name])} | {_default(field)} | {meaning} |"
        if struct is Blueprint:
            yield f"| `{CHECKS}` | a mapping of [check](#check) | none | By title: stages take them by name. |"
        yield ""


def _doc(struct: Any) -> str:
    first, _, _ = (struct.__doc__ or "").partition("\n\n    Args:")
    return " ".join(first.split())


def _title(struct: Any) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", struct.__name__)
    return words[0] + words[1:].lower()


def _takes(kind: Any) -> str:
    """Return a type in words, with a link to the structure in it."""
    parts = [kind, *typing.get_args(kind)]
    structs = dict.fromkeys(each for part in parts for each in members_of(part) if _is_struct(each))
    words = words_of(kind).replace("|", "\\|")
    if not structs:
        return words
    first = next(iter(structs))
    family = next((family for family in _FAMILIES if first in typing.get_args(family[0])), None)
    name = _title(first) if family is None else family[2]
    name += f" {first.__struct_config__.tag}" if family is not None and len(structs) == 1 else ""
    link = f"[{name.lower()}](#{name.lower().replace(' ', '-')})"
    if typing.get_origin(kind) is dict:
        return f"a mapping of {link}"
    return words.replace("a mapping", link) if "a mapping" in words else f"a list of {link}"


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _default(field: Any) -> str:
    if field.required:
        return ""
    match field.default:
        case msgspec.UNSET | msgspec.NODEFAULT | None | "" | ():
            return "none"
        case bool() as value:
            return f"`{str(value).lower()}`"
        case Expectation():
            return "none"
    return f"`{getattr(field.default, 'value', field.default)}`"


def _components() -> Iterator[str]:
    yield from (_COMPONENTS, "| component | is | has |", "| --- | --- | --- |")
    for path in sorted((shipped_blueprints() / SHARED).glob("*.yaml")):
        if path.stem in _NO_COMPONENTS:
            continue
        data = read_file(path)
        lines = itertools.takewhile(lambda line: line.startswith("#"), data.decode().splitlines())
        comment = " ".join(line.lstrip("# ") for line in lines)
        found = load_document(data, file=path.name).value
        parts = [f"{key}: {', '.join(f'`{name}`' for name in found[key])}" for key in _NAMED if found.get(key)]
        yield f"| `{path.stem}` | {comment} | {'; '.join(parts)} |"
    yield ""


def _terraform_roots() -> Iterator[str]:
    yield from (_ROOTS, "| root | variables | outputs |", "| --- | --- | --- |")
    folder = shipped_blueprints()
    for path in sorted((folder / SHARED / "terraform").iterdir()):
        found = declarations_of(folder, f"{SHARED}/terraform/{path.name}")
        names = [f"**`{name}`**" if is_needed else f"`{name}`" for name, is_needed in sorted(found.variables.items())]
        yield f"| `{path.name}` | {', '.join(names)} | {', '.join(f'`{name}`' for name in sorted(found.outputs))} |"
