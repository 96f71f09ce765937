"""`eksml-tui logs`: the logs of a pod, of a job's pods or of those with labels, in the order of their times."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from actions.base.clock import SystemClock
from actions.base.errors import ConsoleError, MissingError, UsageError
from actions.base.files import write_private
from actions.base.untrusted import plain_text
from actions.cluster.auth.session import KubeSession
from actions.cluster.job_pods import pods_of_job
from actions.cluster.logs.batch import LogBatch, batches_of, line_in, number_in, tag_in, tagged_lines
from actions.cluster.logs.follow import ContainerLog, LogCursor, follow, read_log
from actions.cluster.state.cluster_state import ClusterState
from actions.cluster.state.listing import fetch_pods
from actions.fleet.facts import PodFacts
from actions.run.support.archive import require_absent
from actions.run.support.filters import SupportFilter, learn_secrets
from tui.cli.inspect.watch import listed_jobs, named_job
from tui.cli.target import ask_cluster
from tui.feeds.logs import SourceNames, TimeOrder
from tui.present.subject import parse_subject

_AT_ONCE = 16
"""Logs that are read at the same time."""
_MOST_FOLLOWED = 150
_PRINT_SECONDS = 0.25
_ALL_LINES = 1 << 30
_MOST_RECORDED, _MOST_RECORDED_BYTES = 8, 1 << 20
"""Logs, and bytes of each: a run keeps a copy of them."""
_FEWEST, _MOST_A_UNIT = 10, 999_999
"""Lines in the unit of a rate."""


def run(options: Namespace) -> int:
    """Print logs, and follow them with `--follow` until their containers have ended.

    Returns:
        0; 1 if a log could not be read.

    Raises:
        UsageError: Neither an object nor labels are named, or options contradict each other.
        MissingError: No pod is chosen.
    """
    if bool(options.object) == bool(options.selector):
        raise UsageError("Name a pod, a job, or labels.", hint="eksml-tui logs job/train, or logs -l app=train.")
    if options.follow and (options.previous or options.to):
        given = "--to" if options.to else "--previous"
        raise UsageError(f"{given} takes a log as it is now; it cannot be followed.")
    if options.to:
        require_absent(options.to)

    async def ask(session: KubeSession) -> int:
        return await _print_logs(session, options)

    return ask_cluster(options, ask)


async def _print_logs(session: KubeSession, options: Namespace) -> int:
    sources = [
        ContainerLog(pod.namespace, pod.name, container, pod.uid)
        for pod in await _pods(session, options)
        for container in pod.containers
        if options.container in ("", container)
    ]
    if not sources:
        chosen = options.object or f"labels {options.selector}"
        raise MissingError(f"There is no container of {chosen}.", hint="eksml-tui pods -A lists pods.")
    if options.to:
        return await _record(session, sources, options)
    if options.follow and len(sources) > _MOST_FOLLOWED:
        raise UsageError(f"{len(sources)} logs cannot be followed at once; {_MOST_FOLLOWED} can.")
    printer = _Printer(sources)
    gate, failures = asyncio.Semaphore(_MOST_FOLLOWED if options.follow else _AT_ONCE), 0
    readers = [asyncio.create_task(_read(session, source, options, printer, gate)) for source in sources]
    try:
        while pending := [reader for reader in readers if not reader.done()]:
            await asyncio.wait(pending, timeout=_PRINT_SECONDS if options.follow else None)
            if options.follow:
                printer.print_older()
        for source, ended in zip(sources, await asyncio.gather(*readers, return_exceptions=True), strict=True):
            if isinstance(ended, ConsoleError):
                failures += 1
                sys.stderr.write(f"eksml-tui: {source.pod}/{source.container}: {ended.sentence()}\n")
            elif ended is not None:
                raise ended
    finally:
        for reader in readers:
            reader.cancel()
    printer.print_all()
    return int(failures > 0)


async def _record(session: KubeSession, sources: list[ContainerLog], options: Namespace) -> int:
    """Write logs into files for a rehearsal, the first under the given name, and print the key of a stage for them."""
    learn_secrets(Path(), {}, os.environ)
    hidden, since = SupportFilter(None), _since(options)
    files: list[str] = []
    rate = ""
    if len(sources) > _MOST_RECORDED:
        sys.stderr.write(f"eksml-tui: The first {_MOST_RECORDED} of {len(sources)} logs are recorded.\n")
    for source in sources[:_MOST_RECORDED]:
        read = await read_log(session, source, tail_lines=options.tail, since=since, previous=options.previous)
        lines = [line for line in read if not line.is_marker]
        data = hidden.data("".join(f"{line.text}\n" for line in lines).encode())
        if len(data) > _MOST_RECORDED_BYTES:
            data = data[: data.rfind(b"\n", 0, _MOST_RECORDED_BYTES) + 1]
            sys.stderr.write(f"eksml-tui: {source.pod}: its first {_MOST_RECORDED_BYTES >> 20} MiB are recorded.\n")
        rank = f"-{len(files)}" if files else ""
        file = options.to.with_name(f"{options.to.stem}{rank}{options.to.suffix}")
        require_absent(file)
        write_private(file, data)
        files.append(file.name)
        rate = rate or _rate_of([line.at_ns for line in lines])
    named = files[0] if len(files) == 1 else f"[{', '.join(files)}]"
    sys.stdout.write(f"rehearsal: {{log: {named}, rate: {rate or '5/s'}}}\n")
    sys.stderr.write(
        "eksml-tui: Read it for what nobody else may see. Then put it beside blueprint.yaml, and that line into the "
        "stage of the job.\n"
    )
    return 0


def _rate_of(moments: Sequence[int]) -> str:
    """Return the mean rate of lines that were printed at these moments (nanoseconds); empty if there is none."""
    seconds = (moments[-1] - moments[0]) / 1e9 if moments else 0.0
    for unit, length in (("s", 1), ("m", 60), ("h", 3600)) if seconds > 0 else ():
        count = round(len(moments) / seconds * length)
        if count >= _FEWEST or unit == "h":
            return f"{min(max(1, count), _MOST_A_UNIT)}/{unit}"
    return ""


def _since(options: Namespace) -> LogCursor | None:
    return LogCursor(int((SystemClock().now().timestamp() - options.since) * 1e9), 0) if options.since else None


async def _pods(session: KubeSession, options: Namespace) -> list[PodFacts]:
    """Return the chosen pods, those of a job in the order of its ranks."""
    namespace = session.namespace or "default"
    if options.selector:
        where = "" if options.all_namespaces else namespace
        return sorted(await fetch_pods(session, where, labels=options.selector), key=lambda pod: pod.key)
    subject = parse_subject(options.object, default_namespace=namespace)
    if subject.kind == "Pod":
        found = await fetch_pods(session, subject.namespace)
        return [pod for pod in found if pod.name == subject.name]
    state = ClusterState(session)
    following = asyncio.create_task(state.run())
    try:
        snapshot = await listed_jobs(state, following)
        job = named_job(options.object, namespace, snapshot)
        return [one.pod for one in pods_of_job(job, snapshot.pods, snapshot.workloads)]
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


async def _read(
    session: KubeSession, source: ContainerLog, options: Namespace, printer: _Printer, gate: asyncio.Semaphore
) -> None:
    since = _since(options)
    async with gate:
        if options.follow:

            def deliver(batch: LogBatch) -> None:
                printer.put(source, batch)

            await follow(session, source, on_lines=deliver, tail_lines=options.tail, since=since)
            return
        lines = await read_log(session, source, tail_lines=options.tail, since=since, previous=options.previous)
        for batch in batches_of(lines):
            printer.put(source, batch)


class _Printer:
    """Prints lines in the order of their times, with the name of each one's log if there are several."""

    def __init__(self, sources: list[ContainerLog]) -> None:
        self._order, self._names = TimeOrder(), SourceNames()
        self._has_names = len(sources) > 1
        self._pods = {source.pod for source in sources}
        self._is_by_pod = len(self._pods) == len(sources)
        self._newest = 0

    def put(self, source: ContainerLog, batch: LogBatch) -> None:
        """Take lines of one log."""
        name = source.pod if self._is_by_pod else f"{source.pod}/{source.container}"
        self._order.put(tagged_lines(batch, self._names.number_of(name)))

    def print_older(self) -> None:
        """Print the lines before which no earlier ones are expected."""
        is_quiet, self._newest = self._newest == self._order.newest_ns, self._order.newest_ns
        self._print(self._order.take(_ALL_LINES, is_quiet=is_quiet))

    def print_all(self) -> None:
        """Print all lines."""
        self._print(self._order.take(_ALL_LINES, is_quiet=True))

    def _print(self, records: list[bytes]) -> None:
        for record in records:
            line, name = line_in(record), self._names.name_of(number_in(tag_in(record)))
            text = line.text if sys.stdout.isatty() else plain_text(line.text.rstrip("\r").rpartition("\r")[2])
            sys.stdout.write(f"{f'{name} ' if self._has_names else ''}{f'-- {text} --' if line.is_marker else text}\n")
        sys.stdout.flush()
