"""`eksml-tui blueprints new`: the folder of a blueprint that is begun from a manifest, or from a job of the cluster."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from actions.base.errors import BlueprintError, ConfigError, ConsoleError, UsageError
from actions.base.files import config_folder, expanded, private_directory, require_folder, shipped_blueprints
from actions.base.untrusted import redact
from actions.base.yamldoc import read_input
from actions.blueprint.begin.job_manifests import without_server_fields
from actions.blueprint.begin.new_blueprint import NOWHERE, SCRIPT, NewBlueprint, begin_blueprint
from actions.blueprint.catalogue import BLUEPRINT_ID, validate
from actions.blueprint.model import Cluster
from actions.cluster.auth.kubeconfig import parse_context_name
from actions.cluster.auth.session import KubeSession
from actions.cluster.kinds import watched_names
from actions.cluster.logs.follow import ContainerLog, read_log
from actions.cluster.objects.client import Discovery, ObjectRef, fetch_object
from actions.cluster.objects.editing import yaml_text
from actions.cluster.state.listing import fetch_pods
from actions.telemetry.log_reader import LogStream
from actions.telemetry.points import Point
from tui.cli.options import STDIN
from tui.cli.target import ask_cluster
from tui.present.subject import parse_subject

_MOST_CHARTS = 6
_TAIL_LINES = 5000
_LOSS = "train_loss"
_MOST_LOG_BYTES = 1 << 20
"""Of a log: each run keeps a copy of it, as of all files of its blueprint."""


def run(options: Namespace) -> int:
    """Write the folder.

    Raises:
        UsageError: The id is not one, or the folder is there already.
        BlueprintError: The manifest cannot be used, with file, line and column.
        ConfigError: The folder cannot be written.
    """
    folder = expanded(options.to) if options.to else config_folder() / "blueprints" / options.id
    _require_free(options.id, folder)
    new = _begun(options)
    _write(folder, new.files)
    for line in _report(folder, new, options):
        sys.stdout.write(f"{line}\n")
    return 0


def _require_free(blueprint_id: str, folder: Path) -> None:
    if BLUEPRINT_ID.fullmatch(blueprint_id) is None:
        raise UsageError(
            f"{blueprint_id!r} is not an id.", hint="Use lower case, digits and -, and begin with a letter."
        )
    if (shipped_blueprints() / blueprint_id).exists():
        raise UsageError(f"{blueprint_id} is a blueprint of the program.", hint="Choose another id.")
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder} is there already; nothing is overwritten.", hint="Choose another id, or --to DIR.")


def _begun(options: Namespace) -> NewBlueprint:
    log = _log_of(options.log) if options.log else ""
    metrics = _metrics_in(log)
    if log and not metrics:
        hint = f"eksml-tui read log {options.log} shows what is recognised."
        raise UsageError(f"No metric is in {options.log}.", hint=hint)
    begin = partial(begin_blueprint, options.id, metrics=metrics, log=log)
    if options.source == "-" or Path(options.source).exists():
        path, shown = (STDIN, "stdin") if options.source == "-" else (Path(options.source), options.source)
        return begin(read_input(path, kind=BlueprintError, may_be_pipe=True), source=shown)
    subject = parse_subject(options.source, default_namespace="")
    if subject.row is None or not subject.row.is_watched or "/" not in options.source:
        raise UsageError(
            f"There is no file {options.source}, and no kind of job of that name.",
            hint=f"Name a file, - for stdin, or KIND/NAME, with one of {watched_names()}.",
        )
    row = subject.row

    async def ask(session: KubeSession) -> NewBlueprint:
        namespace = subject.namespace or session.namespace or "default"
        return await begin_from_live(session, ObjectRef(row.api_version, row.kind, namespace, subject.name), begin)

    return ask_cluster(options, ask)


async def begin_from_live(session: KubeSession, ref: ObjectRef, begin: Callable[..., NewBlueprint]) -> NewBlueprint:
    """Return the blueprint of a job of a cluster, with charts of what is in its log where none was given."""
    live = await fetch_object(session, Discovery(session), ref)
    context = parse_context_name(session.context)
    place = Cluster(name=context.cluster, region=context.region) if context.region else NOWHERE
    cluster = replace(place, namespace=ref.namespace)
    again = partial(begin, yaml_text(without_server_fields(live)).encode(), source=ref.describe(), cluster=cluster)
    new = again()
    if new.metrics:
        return new
    try:
        found = await _metrics_of_pods(session, ref.namespace, new.log_pods)
        remark = "" if found else "No metric is in its log, so it has no charts: name a log with --log FILE."
    except ConsoleError as error:
        found, remark = [], f"Its log could not be read, so it has no charts: {error.sentence()}"
    new = again(metrics=found)
    return replace(new, remarks=(*new.remarks, remark)) if remark else new


async def _metrics_of_pods(session: KubeSession, namespace: str, selector: str) -> list[str]:
    """Return the metrics in the last lines of the first pod's log that has some."""
    for pod in sorted(await fetch_pods(session, namespace, labels=selector), key=lambda pod: pod.key)[:4]:
        source = ContainerLog(pod.namespace, pod.name, pod.containers[0], pod.uid)
        lines = await read_log(session, source, tail_lines=_TAIL_LINES)
        if found := _metrics_in("\n".join(line.text for line in lines)):
            return found
    return []


def _log_of(path: Path) -> str:
    data = read_input(path, kind=BlueprintError, limit_bytes=_MOST_LOG_BYTES, may_be_pipe=True)
    return redact(data.decode(errors="replace"))


def _metrics_in(log: str) -> list[str]:
    points = (value for value in LogStream().read_all(log.encode()) if isinstance(value, Point))
    found = dict.fromkeys(point.metric for point in points if re.fullmatch(r"[\w./-]+", point.metric))
    return sorted(found, key=lambda metric: metric != _LOSS)[:_MOST_CHARTS]


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """Write all files, check them, and give the folder its name only then.

    Raises:
        BlueprintError: What was made is not valid.
        ConfigError: It cannot be written.
    """
    parent = folder.absolute().parent
    if parent == config_folder() / "blueprints":
        private_directory(parent)
    require_folder(parent)
    scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=parent))
    try:
        made = scratch / folder.name
        for name, data in files.items():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_bytes(data)
        if errors := validate(made):
            raise errors[0]
        made.rename(folder)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror}.", hint="Choose another folder.") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _report(folder: Path, new: NewBlueprint, options: Namespace) -> Iterator[str]:
    yield f"{folder}: {', '.join(new.files)}"
    yield from new.remarks
    more = ["--blueprints", str(folder.parent)] if options.to else []
    yield f"Rehearse it: {shlex.join(['eksml-tui', '--demo', *more, '--script', str(folder / SCRIPT)])}"
