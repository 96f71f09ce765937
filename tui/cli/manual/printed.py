"""`eksml-tui print` and `eksml-tui docs`: texts that ship with the program, for those who have only installed it."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from pathlib import Path

from actions.base.errors import UnknownNameError, nearest_hint
from actions.base.files import asset, documents, read_file
from actions.base.wording import aligned_text

_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


def print_text(options: Namespace) -> int:
    """Print roles of a cluster, a policy of IAM or a JSON Schema, for `kubectl`, `aws` and editors."""
    sys.stdout.write(_text_of(options.verb, options.name))
    return 0


def _text_of(text: str, name: str) -> str:
    if text == "rbac":
        return _read(asset("rbac.yaml"))
    if text == "iam":
        return _read(asset(f"iam/{name}.json"))
    if name == "config":
        from actions.base.decoding import json_document
        from tui.settings.config import config_schema

        return json_document(config_schema())
    from actions.blueprint.structure.schema import schema_text

    return schema_text()


def print_page(options: Namespace) -> int:
    """Print a page of the documentation, to a terminal with its form, in a pager; without a name, the list of pages."""
    pages = {path.stem: path for place in ("guides/*.md", "*.md") for path in sorted(documents().glob(place))}
    if not options.page:
        sys.stdout.write(aligned_text([["PAGE", "TITLE"], *([name, _title(path)] for name, path in pages.items())]))
        return 0
    if options.page not in pages:
        raise UnknownNameError(f"There is no page {options.page!r}.", hint=nearest_hint(options.page, pages))
    text = _read(pages[options.page])
    if not sys.stdout.isatty():
        sys.stdout.write(text)
        return 0
    from rich.console import Console  # only for terminals: a tenth of a second
    from rich.markdown import Markdown

    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text))
    return 0


def _title(path: Path) -> str:
    found = _TITLE.search(_read(path))
    return found[1] if found else path.stem


def _read(path: Path) -> str:
    return read_file(path).decode()
