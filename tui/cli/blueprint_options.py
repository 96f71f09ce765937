"""The options and help of `eksml-tui blueprints`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tui.cli.options import add_options, input_file, output_option

if TYPE_CHECKING:
    import argparse

    from tui.cli.options import Commands, Options


def blueprint_commands(commands: Commands, cluster: Options) -> None:
    """Add `blueprints` with its verbs, and `validate`."""
    blueprints = commands.add_parser("blueprints", help="list the blueprints, show one, begin or add one")
    output_option(blueprints)
    verbs = blueprints.add_subparsers(dest="verb", metavar="VERB")
    listing = verbs.add_parser("list", help="list all blueprints, as without a verb")
    output_option(listing, suppress=True)
    _new(verbs.add_parser("new", help="begin one from a manifest, or a job of the cluster"), cluster)
    show = verbs.add_parser("show", help="show the stages, parameters and presets of a blueprint")
    show.add_argument("blueprint", metavar="BLUEPRINT", help="the blueprint to show")
    output_option(show, suppress=True)
    _of_repositories(verbs)
    _validate(commands)


def _new(new: argparse.ArgumentParser, cluster: Options) -> None:
    new.add_argument("id", metavar="ID", help="its id: lower case, digits and -")
    where = "a manifest file, - for stdin, or KIND/NAME of a job that runs"
    new.add_argument("--from", dest="source", required=True, metavar="SOURCE", help=where)
    new.add_argument(
        "--to", type=Path, metavar="DIR", help="the folder to write (default: ID in blueprints of the settings folder)"
    )
    new.add_argument(
        "--log",
        type=input_file,
        metavar="FILE",
        help="a log of it: its metrics become the charts, and a rehearsal plays it",
    )
    add_options(new, cluster, suppress=True)


def _of_repositories(verbs: Commands) -> None:
    """Add the verbs that keep blueprints of git repositories."""
    adding = verbs.add_parser("add", help="add one of a git repository, pinned; nothing is run")
    adding.add_argument("origin", metavar="GIT[@REF][//PATH]", help="repository; branch, tag or commit; folder in it")
    updating = verbs.add_parser("update", help="show what changed in its repository, and take it")
    updating.add_argument(
        "names", nargs="*", default=[], metavar="ID", help="the blueprints (default: all that were added)"
    )
    updating.add_argument("--ref", default="", metavar="REF", help="another branch, tag or commit from now on")
    removing = verbs.add_parser("remove", help="remove one that was added; its runs keep their copies")
    removing.add_argument("blueprint", metavar="ID", help="the blueprint")
    for changing in (adding, updating, removing):
        changing.add_argument("--yes", action="store_true", help="do not ask")


def _validate(commands: Commands) -> None:
    validate = commands.add_parser("validate", help="check blueprint folders")
    validate.add_argument(
        "folder",
        type=Path,
        nargs="+",
        metavar="FOLDER",
        help="a folder with a blueprint.yaml; - takes that file from stdin, and the others from the working folder",
    )
