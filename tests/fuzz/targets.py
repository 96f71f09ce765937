"""The readers of files that others may have made: each by its public door, with samples that it takes."""

from __future__ import annotations

import io
import json
import shutil
from argparse import Namespace
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from itertools import chain
from pathlib import Path

import msgspec

from actions.base.errors import ConsoleError
from actions.blueprint.catalogue import load_blueprint, validate
from actions.blueprint.launch_plan import plan_json, plan_of, plan_table
from actions.blueprint.parameters import bind
from actions.cluster.auth.kubeconfig import ClusterTarget, contexts_of, load_context
from actions.fleet.price_file import read_price_file
from actions.fleet.prices import PriceBook
from actions.run.output.streams import points_line_in, value_of_line
from actions.script.parse import load_script
from actions.telemetry.curves import Curves
from actions.telemetry.log_reader import read_log
from actions.telemetry.points import Point
from tui.cli.inspect.cluster import print_findings
from tui.cli.inspect.read import run as read
from tui.cli.tables.plots import curves_of
from tui.screens.kept_panes import read_charts, read_layout
from tui.settings.configfile import load_config
from tui.settings.keyfile import load_keymap
from tui.widgets.plot_renderer import Pen, PlotOptions, Smoothing, picture_of

_ROOT = Path(__file__).parents[2]
_CORPUS = _ROOT / "tests" / "fixtures" / "corpus"
_MOST_SAMPLE_BYTES = 200_000


class Target(msgspec.Struct, frozen=True):
    """One door.

    Attributes:
        read: Reads a file; raises nothing but a `ConsoleError`.
        samples: Files that it takes, to be changed.
        name: The file's name, where the door asks for one.
    """

    read: Callable[[Path], object]
    samples: tuple[bytes, ...]
    name: str = "input"


def _files(*patterns: str) -> tuple[bytes, ...]:
    found = chain.from_iterable(sorted(_ROOT.glob(pattern)) for pattern in patterns)
    data = [file.read_bytes() for file in found if ".expected." not in file.name and ".source." not in file.name]
    return tuple(each for each in data if len(each) <= _MOST_SAMPLE_BYTES)


def _read(kind: str, file: Path) -> None:
    for form in ("table", "json", "plot", "csv"):
        read(Namespace(kind=kind, file=str(file), output=form, metric=[]))


def _drawn(file: Path) -> None:
    """Draw each curve of a log, in all ways, and read what a run would have kept of it."""
    curves = Curves()
    for point in read_log(file.read_bytes()):
        curves.add(point)
    for metric in curves.metrics():
        for is_log, smoothing in ((False, Smoothing.ON), (True, Smoothing.OFF)):
            options = PlotOptions(is_log=is_log, smoothing=smoothing)
            pen = Pen((9, 9, 9), (99, 99, 99))
            picture_of(curves_of(curves, [metric]), [pen], width=60, height=14, options=options)


def _points(file: Path) -> None:
    curves = Curves()
    for raw in file.read_bytes().split(b"\n"):
        line = points_line_in(raw)
        value = value_of_line(line) if line is not None and not hasattr(line, "pod") else None
        if isinstance(value, Point):
            curves.add(value)
    options = PlotOptions(is_log=False)
    found = curves_of(curves)
    picture_of(found, [Pen((9, 9, 9), (99, 99, 99))] * len(found), width=60, height=14, options=options)


def _why(file: Path) -> None:
    for form in ("text", "json"):
        print_findings(Namespace(source=file, object="", namespace="", output=form))


def _blueprint(sample: str, file: Path) -> None:
    """Validate, and plan if it is good, among the files of a shipped one."""
    folder = file.parent / "blueprint"
    if not folder.exists():
        shutil.copytree(_ROOT / "blueprints" / sample, folder)
    file.replace(folder / "blueprint.yaml")
    if not validate(folder):
        blueprint = load_blueprint(folder)
        plan = plan_of(blueprint, bind(blueprint, {}, preset="rehearsal"), PriceBook.load())
        plan_table(plan)
        json.dumps(plan_json(plan), default=str)


def _terraform(file: Path) -> None:
    _with_terraform(file.parent / "root", file.read_bytes())


def _with_terraform(folder: Path, data: bytes) -> None:
    from actions.blueprint.source_files import declarations_of, empty_variables, git_modules, needs_account
    from actions.terraform.backend import own_backend
    from actions.terraform.modules import module_calls

    (folder / "root").mkdir(parents=True, exist_ok=True)
    (folder / "root" / "main.tf").write_bytes(data)
    for look in (declarations_of, empty_variables, needs_account, git_modules):
        look(folder, "root")
    own_backend(folder / "root")
    module_calls(folder / "root")


def _kubeconfig(file: Path) -> None:
    target = ClusterTarget(file)
    contexts_of(target, {})
    load_context(target, {})


def _layouts(file: Path) -> None:
    for look in (read_layout, read_charts):
        try:
            look(file)
        except ConsoleError:
            continue


_KUBECONFIG = b"""\
apiVersion: v1
kind: Config
current-context: one
clusters:
- name: c
  cluster: {server: "https://127.0.0.1:6443", certificate-authority-data: aGFsbG8=, tls-server-name: x}
contexts:
- name: one
  context: {cluster: c, user: u, namespace: default}
users:
- name: u
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, args: [eks, get-token], env: []}
"""
_CONFIG = b"""\
readonly: false
theme: dark
commands: {ready: open pods}
blueprints: [~/blueprints]
"""
_KEYS = b"keys: {pane.pods: P}\ncommands: {X: open pods}\n"
_LAYOUTS = b'{"version": 1, "layout": {"is": "pane", "pane": "runs"}}'
_POINTS = b"""\
{"type":"source","number":1,"namespace":"","pod":"p","container":"c","uid":"u"}
{"type":"point","number":1,"metric":"train_loss","step":1,"value":2.5,"epoch":0.5,"at":1700000000.0}
{"type":"point","number":1,"metric":"train_loss","step":2,"value":"inf"}
{"type":"progress","number":1,"label":"step","done":3,"total":9,"per_second":2.0}
"""


def all_targets() -> Mapping[str, Target]:
    """Return the doors by name."""
    logs = _files("tests/fixtures/corpus/logs/*.log")
    folders = {"nccl": "nccl", "nvidia-smi": "nvidia_smi", "topo": "nvidia_smi", "neuron": "neuron", "efa": "efa"}
    readers = {
        kind: Target(partial(_read, kind), _files(f"tests/fixtures/corpus/{at}/*")) for kind, at in folders.items()
    }
    blueprints = {
        f"blueprint {name}": Target(partial(_blueprint, name), _files(f"blueprints/{name}/blueprint.yaml"))
        for name in ("efa-nccl-tests", "bionemo-esm1nv")
    }
    return {
        "log": Target(partial(_read, "log"), logs),
        **readers,
        "curves": Target(_drawn, logs),
        "points": Target(_points, (_POINTS,)),
        "why": Target(_why, _files("tests/fixtures/corpus/failures/*.json", "tests/fixtures/diagnose/*.jsonl")),
        **blueprints,
        "terraform": Target(_terraform, _files("blueprints/common/*/*/*.tf")),
        "script": Target(load_script, _files("assets/scripts/*.yaml")),
        "config": Target(load_config, (_CONFIG,)),
        "keys": Target(load_keymap, (_KEYS,)),
        "prices": Target(read_price_file, _files("assets/prices/*.csv")),
        "price book": Target(PriceBook.load, _files("assets/prices/*.csv")),
        "kubeconfig": Target(_kubeconfig, (_KUBECONFIG,)),
        "layouts": Target(_layouts, (_LAYOUTS,)),
    }


def read_quietly(target: Target, file: Path) -> None:
    """Read a file by a door, and print nothing.

    Raises:
        Exception: What the door raised; a `ConsoleError` is right.
    """
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        target.read(file)
