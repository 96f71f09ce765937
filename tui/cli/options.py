"""Options that several commands have."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from actions.base.errors import nearest_hint
from tui.cli.examples import EXAMPLES
from tui.cli.tables import FORMATS
from tui.settings import THEMES

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - argparse has no other name for it

Options = list[tuple[tuple[str, ...], dict[str, object]]]
"""Names and settings of options, as `add_argument` takes them."""

RUN = "id of the run, the beginning of it, or latest"
STORE = "s3://BUCKET/PREFIX"


def cluster_options() -> Options:
    """Return the options that choose cluster, credentials and region."""
    return [
        (("--demo",), {"action": "store_true", "help": "use the embedded cluster on 127.0.0.1; start it if necessary"}),
        (
            ("--kubeconfig",),
            {"type": Path, "metavar": "FILE", "help": "kubeconfig (default: $KUBECONFIG, ~/.kube/config)"},
        ),
        (("--context",), {"default": "", "metavar": "NAME", "help": "context of the kubeconfig"}),
        (("-n", "--namespace"), {"default": "", "metavar": "NAME", "help": "namespace to start in"}),
        (("--profile",), {"default": "", "metavar": "NAME", "help": "AWS profile"}),
        (
            ("--allow-plugin",),
            {
                "action": "append",
                "default": [],
                "metavar": "NAME",
                "help": "start this exec plugin of the kubeconfig; repeatable",
            },
        ),
        (("--region",), {"default": "", "metavar": "REGION", "help": "AWS region, if the cluster does not name one"}),
    ]


def add_options(target: argparse.ArgumentParser, options: Options, *, suppress: bool = False) -> None:
    """Add options to a command; `suppress` leaves out their defaults, as a command above has them."""
    for names, settings in options:
        extra = {"default": argparse.SUPPRESS} if suppress else {}
        target.add_argument(*names, **(settings | extra))  # type: ignore[arg-type]


def output_option(command: argparse.ArgumentParser, *more: str, suppress: bool = False) -> None:
    """Add the option for the form of what is printed, one of `FORMATS` or `more`; `suppress` as of `add_options`."""
    choices = (*FORMATS, *more)
    command.add_argument(
        "-o", "--output", choices=choices, metavar="FORM", default=argparse.SUPPRESS if suppress else "table",
        help=f"{', '.join(choices)} (default: table)",
    )  # fmt: skip


def listing_options(command: argparse.ArgumentParser, *more: str) -> None:
    """Add what kubectl's `get` has to a command that lists: form, order and titles, and `more` of `_LISTING`."""
    output_option(command, *(["name"] if "--selector" in more else []))
    listing_option(command, "--sort-by", "--no-headers", *more)


def listing_option(command: argparse.ArgumentParser, *flags: str) -> None:
    """Add some options of `_LISTING`."""
    for flag in flags:
        short, settings = _LISTING[flag]
        command.add_argument(*short, flag, **settings)  # type: ignore[arg-type]


def words_of(text: str) -> list[str]:
    """Read words that are separated by commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


SEVERAL: Options = [
    (("--contexts",), {"type": words_of, "metavar": "A,B", "help": "contexts of several clusters at once, or all"})
]

_LISTING: dict[str, tuple[tuple[str, ...], dict[str, object]]] = {
    "--sort-by": (
        (),
        {
            "default": "",
            "metavar": "COLUMN",
            "help": "order of the rows, by a column of -o wide; --sort-by=-COLUMN reverses it",
        },
    ),
    "--no-headers": ((), {"action": "store_true", "help": "print no titles"}),
    "--all-namespaces": (("-A",), {"action": "store_true", "help": "all namespaces"}),
    "--selector": (("-l",), {"default": "", "metavar": "LABELS", "help": "only what has these labels: team=a,tier!=b"}),
    "--label-columns": (
        ("-L",),
        {"type": words_of, "default": [], "metavar": "NAMES", "help": "labels to show as columns, separated by commas"},
    ),
    "--watch": (("-w",), {"action": "store_true", "help": "go on with each row that changes"}),
}
"""Options of commands that list: short names and settings, as `add_argument` takes them."""


def factor_of(text: str) -> float:
    """Read a positive factor.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    factor = float(text)
    if not 0 < factor < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return factor


def natural_number(text: str) -> int:
    """Read a number from 0 on.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on")
    return int(text)


def duration_in_seconds(text: str) -> float:
    """Read a duration in seconds.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    from actions.script.model import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def port_of(text: str) -> int:
    """Read a number of a port.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    port = int(text)
    if not 0 <= port < 65_536:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 65535")
    return port


STDIN = Path("/dev/stdin")


def input_file(text: str) -> Path:
    """Read the path of a file to be read; `-` is stdin."""
    return STDIN if text == "-" else Path(text)


def object_name(text: str) -> str:
    """Read a name.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name: use letters, digits, - and _")
    return text


def nodes_option(parser: argparse.ArgumentParser, *, of: str = "") -> None:
    """Add the nodes that an embedded cluster has from the beginning."""
    parser.add_argument("--nodes", default="", metavar="TYPE=N,…", help=f"{of}with such nodes: g6e.12xlarge=2,…")


def console_options(top: argparse.ArgumentParser) -> None:
    """Add the options of the console, and of a script that it plays."""
    top.add_argument(
        "--readonly", action="store_true", help="refuse every command that would change the cluster or a run"
    )
    top.add_argument(
        "--blueprints", type=Path, action="append", default=[], metavar="DIR", help="more blueprints; repeatable"
    )
    top.add_argument(
        "--prices",
        type=Path,
        metavar="FILE",
        help="your own prices and discounts (default: prices.csv in the settings folder)",
    )
    top.add_argument("--store", default="", metavar=STORE, help="replicate launched runs to this place in S3")
    top.add_argument("--speed", type=factor_of, metavar="X", help="speed of a new demo, as a multiple of real time")
    nodes_option(top, of="a demo ")
    add_options(top, SEVERAL)
    top.add_argument("--ascii", action="store_true", help="draw with ASCII only (default if the locale is not UTF-8)")
    top.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")
    top.add_argument(
        "--no-clipboard", action="store_true", help="never send a text to the terminal's clipboard (OSC 52)"
    )
    top.add_argument("--theme", choices=THEMES, default="", help="colours of the console (default: dark)")
    top.add_argument("--run", default="", metavar="ID", help="id of the run to show first")
    top.add_argument("--record", type=Path, metavar="FILE", help="write what you do to FILE as a script")
    script = top.add_argument_group("playing a script")
    script.add_argument("--script", type=input_file, metavar="FILE", help="play the steps of FILE; - is stdin")
    script.add_argument("--script-check", action="store_true", help="only check the script")
    script.add_argument("--visible", action="store_true", help="play it in this terminal instead of headless")
    script.add_argument("--report", type=Path, metavar="FILE", help="write a JSON report")
    script.add_argument("--junit", type=Path, metavar="FILE", help="write a JUnit report")
    script.add_argument("--summary", type=Path, metavar="FILE", help="write the report as a page of Markdown")
    script.add_argument("--artifacts", type=Path, metavar="DIR", help="where screenshots and failures go (default: .)")
    script.add_argument(
        "--allow-write", type=Path, action="append", default=[], metavar="DIR",
        help="also let the script write below DIR; repeatable",
    )  # fmt: skip


_ELSEWHERE = {
    "get": "nodes, pods, events and queues list; the console lists every kind, as :jobs",
    "describe": "why explains an object; the console describes it with d",
    "top": "nodes has what is requested; the console's accelerators have their load",
    "apply": "launch applies a blueprint",
    "delete": "runs teardown removes what a run has made; the console deletes objects with D",
    "exec": "the console opens a shell with s",
    "port-forward": "forward opens a port",
}
"""The way here for commands of kubectl that are not."""


def known_words(place: str, word: str, known: Sequence[str]) -> str:
    """Return the sentence that there is no such command or verb, with those that are written like it.

    Args:
        place: `COMMAND` or `VERB`.
        word: The word that is none.
        known: Those that there are.
    """
    shown = f"Did you mean show {word}?" if "show" in known else ""
    verb = next((f"Did you mean {path}?" for path in EXAMPLES if path.endswith(f" {word}")), "")
    otherwise = _ELSEWHERE.get(word, verb) if place == "COMMAND" else shown
    return f"there is no {place.lower()} {word!r}. {nearest_hint(word, known, otherwise)}".rstrip()


# what argparse calls the types in `invalid … value`
factor_of.__name__, port_of.__name__ = "number", "port"
