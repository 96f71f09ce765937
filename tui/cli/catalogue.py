"""`eksml-tui blueprints` and `validate`: the catalogue, its verbs, and the checks of a blueprint's files."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from actions.base.decoding import json_document
from actions.base.wording import aligned_text
from actions.blueprint.catalogue import Catalogue, validate
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import bounds_of
from actions.blueprint.source_files import FILE_NAME
from actions.blueprint.targets import argument_text
from tui.cli.options import STDIN
from tui.cli.sharing.blueprints import add_blueprint, origin_of, own_pins, remove_blueprint, update_blueprints
from tui.cli.tables.output import print_table

BAD_FILE = 2
"""Exit code for a blueprint with a mistake."""


def run(options: Namespace) -> int:
    """Run `validate`, or a verb of `blueprints`; return its exit code."""
    return _validate(options) if options.command == "validate" else _VERBS[options.verb](options)


def _list(options: Namespace) -> int:
    blueprints, unreadable = Catalogue.usual(options.blueprints).read()
    pins = own_pins()
    listed = [
        {"id": b.id, "title": b.title, "summary": b.summary, "folder": str(b.folder), "origin": origin_of(b, pins)}
        for b in blueprints
    ]
    print_table(
        options.output,
        table=lambda: aligned_text([[each["id"], each["title"], each["origin"]] for each in listed]),
        document=lambda: json_document(listed),
    )
    for broken in unreadable:
        sys.stderr.write(f"eksml-tui: {broken.error.sentence()}\n")
    return BAD_FILE if unreadable else 0


def _show(options: Namespace) -> int:
    blueprint = Catalogue.usual(options.blueprints).find(options.blueprint)
    print_table(
        options.output,
        table=lambda: _page(blueprint),
        document=lambda: json_document(_described(blueprint)),
        rows="parameters",
    )
    return 0


def _page(blueprint: Blueprint) -> str:
    lines = [f"{blueprint.id}: {blueprint.title}", blueprint.summary.strip(), "", "stages"]
    lines += [f"  {stage.id:<12} {stage.kind:<11} {stage.title}" for stage in blueprint.stages]
    lines += ["", "parameters"]
    defaults = {name: argument_text(parameter.default) for name, parameter in blueprint.parameters.items()}
    names, values = (max(map(len, column), default=0) for column in (defaults, defaults.values()))
    for name, parameter in blueprint.parameters.items():
        unit = f" {parameter.unit}" if parameter.unit else ""
        lines.append(f"  {name:<{names}} {defaults[name]:<{values}} {bounds_of(parameter)}{unit}")
    lines += ["", "presets", *(f"  {name:<12} {preset.title}" for name, preset in blueprint.presets.items())]
    return "\n".join(lines) + "\n"


def _described(blueprint: Blueprint) -> object:
    return {
        "id": blueprint.id,
        "title": blueprint.title,
        "summary": blueprint.summary.strip(),
        "stages": [{"id": s.id, "kind": s.kind, "title": s.title, "needs": s.needs} for s in blueprint.stages],
        "parameters": {
            name: {"type": p.type.value, "default": p.default, "accepts": bounds_of(p), "unit": p.unit, "help": p.help}
            for name, p in blueprint.parameters.items()
        },
        "presets": {name: preset.set for name, preset in blueprint.presets.items()},
    }


def _validate(options: Namespace) -> int:
    """Check folders. Of several, those that hold no blueprint at all are passed over, but never every one."""
    others = [folder for folder in options.folder if folder.is_dir() and not (folder / FILE_NAME).exists()]
    folders = [folder for folder in options.folder if folder not in others] or options.folder
    errors = [
        error
        for folder in folders
        for error in (validate(Path.cwd(), STDIN) if folder == Path("-") else validate(folder))
    ]
    for error in errors:
        sys.stderr.write(f"eksml-tui: {error.sentence()}\n")
    if not errors:
        sys.stdout.write("".join(f"{folder}: good.\n" for folder in folders))
        sys.stdout.write("".join(f"{folder}: not a blueprint, it has no {FILE_NAME}.\n" for folder in others))
    return BAD_FILE if errors else 0


def _new(options: Namespace) -> int:
    from tui.cli.new_blueprint import run

    return run(options)


_VERBS = {
    None: _list,
    "list": _list,
    "show": _show,
    "new": _new,
    "add": add_blueprint,
    "update": update_blueprints,
    "remove": remove_blueprint,
}
