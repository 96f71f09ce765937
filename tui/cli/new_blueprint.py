"""`eksml-tui blueprints new`: the folder of a blueprint that is begun from a manifest, or from a job of the cluster."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from actions.base.errors import BlueprintError, ConfigError, ConsoleError, UsageError
from actions.base.files import config_folder, expanded, private_directory, require_folder, shipped_blueprints
from actions.base.untrusted import redact
from actions.base.yamldoc import read_input
from actions.blueprint.begin.job_manifests import without_server_fields
from actions.blueprint.begin.job_rehearsal import SCRIPT
from actions.blueprint.begin.new_blueprint import NewBlueprint, Place, begin_blueprint
from actions.blueprint.catalogue import BLUEPRINT_ID, validate
from actions.cluster.auth.kubeconfig import parse_context_name
from actions.cluster.auth.session import KubeSession
from actions.cluster.kinds import KubeKind, watched_names
from actions.cluster.objects.editing import yaml_text
from tui.cli.options import STDIN
from tui.cli.target import ask_cluster
from tui.present.subject import Subject, parse_subject

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
    new, remarks = _begun(options)
    _write(folder, new.files)
    for line in _report(folder, new, remarks, options):
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


def _begun(options: Namespace) -> tuple[NewBlueprint, list[str]]:
    """Return the blueprint, and sentences on what is not known of it."""
    path = STDIN if options.source == "-" else Path(options.source)
    log = (
        read_input(options.log, kind=BlueprintError, limit_bytes=_MOST_LOG_BYTES, may_be_pipe=True)
        if options.log
        else b""
    )
    metrics = _metrics_of(log, options.log) if log else []
    if options.source == "-" or path.exists():
        data = read_input(path, kind=BlueprintError, may_be_pipe=True)
        shown = "stdin" if options.source == "-" else options.source
        text = redact(log.decode(errors="replace"))
        return begin_blueprint(options.id, data, source=shown, metrics=metrics, log=text), []
    subject = parse_subject(options.source, default_namespace="")
    if subject.row is None or not subject.row.is_watched or "/" not in options.source:
        raise UsageError(
            f"There is no file {options.source}, and no kind of job of that name.",
            hint=f"Name a file, - for stdin, or KIND/NAME, with one of {watched_names()}.",
        )
    row = subject.row

    async def ask(session: KubeSession) -> tuple[NewBlueprint, list[str]]:
        return await _of_live(session, options, row, subject, log)

    return ask_cluster(options, ask)


async def _of_live(
    session: KubeSession, options: Namespace, row: KubeKind, subject: Subject, log: bytes
) -> tuple[NewBlueprint, list[str]]:
    from actions.cluster.objects.client import Discovery, ObjectRef, fetch_object

    namespace = subject.namespace or session.namespace or "default"
    ref = ObjectRef(row.api_version, row.kind, namespace, subject.name)
    live = await fetch_object(session, Discovery(session), ref)
    data = yaml_text(without_server_fields(live)).encode()
    context = parse_context_name(session.context)
    place = Place(context.cluster, context.region, namespace) if context.region else Place(namespace=namespace)
    source = ref.describe()
    text = redact(log.decode(errors="replace"))
    metrics = _metrics_of(log, options.log) if log else []
    new = begin_blueprint(options.id, data, source=source, place=place, metrics=metrics, log=text)
    if metrics:
        return new, []
    try:
        found = await _metrics_of_pods(session, namespace, new.log_pods)
    except ConsoleError as error:
        return new, [f"Its log could not be read, so it has no charts: {error.sentence()}"]
    if not found:
        return new, ["No metric is in its log, so it has no charts: name a log with --log FILE."]
    return begin_blueprint(options.id, data, source=source, place=place, metrics=found), []


async def _metrics_of_pods(session: KubeSession, namespace: str, selector: str) -> list[str]:
    """Return the metrics in the last lines of the first pod's log that has some."""
    from actions.cluster.logs.follow import ContainerLog, read_log
    from actions.cluster.state.listing import fetch_pods

    for pod in sorted(await fetch_pods(session, namespace, labels=selector), key=lambda pod: pod.key)[:4]:
        source = ContainerLog(pod.namespace, pod.name, pod.containers[0], pod.uid)
        lines = await read_log(session, source, tail_lines=_TAIL_LINES)
        if found := _metrics_in("\n".join(line.text for line in lines).encode()):
            return found
    return []


def _metrics_of(data: bytes, path: Path) -> list[str]:
    """Return the metrics of a log.

    Raises:
        UsageError: It has none.
    """
    found = _metrics_in(data)
    if not found:
        raise UsageError(f"No metric is in {path}.", hint=f"eksml-tui read log {path} shows what is recognised.")
    return found


def _metrics_in(data: bytes) -> list[str]:
    from actions.telemetry.log_reader import LogStream
    from actions.telemetry.points import Point

    points = [value for value in LogStream().read_all(data) if isinstance(value, Point)]
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


def _report(folder: Path, new: NewBlueprint, remarks: Sequence[str], options: Namespace) -> Iterator[str]:
    yield f"{folder}: {', '.join(new.files)}"
    yield f"{new.job}, with the parameters {', '.join(new.parameters)}."
    if new.needed:
        yield f"Has to be there, as preflight checks: {', '.join(map(str, new.needed))}."
    yield from new.remarks
    yield from remarks
    more = ["--blueprints", str(folder.parent)] if options.to else []
    yield f"Rehearse it: {shlex.join(['eksml-tui', '--demo', *more, '--script', str(folder / SCRIPT)])}"
