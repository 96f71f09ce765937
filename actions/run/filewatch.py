"""Following a log that is a file in a pod, or what a program in it prints, into a stage's spool: each line once.

Where reading goes on after a cut, a crash or in another pod follows from the lines that are in the spool, which know
where in the file they end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from actions.base.errors import ConsoleError, MissingError, RefusedError, UnreachableError
from actions.blueprint.references import UID
from actions.cluster.logs.lines import FileCutter, FileLine, LogLine
from actions.cluster.logs.pod_file import (
    CHOICE_SECONDS,
    IDLE_SECONDS,
    FileState,
    Place,
    find_file,
    follow_output,
    is_choice,
    read_file,
)
from actions.run.access import Connection
from actions.run.spool import SpooledSource, SpoolWriter
from actions.run.troubles import Troubles, sentence_of
from actions.run.work import StageWork

_TOPIC = "file"
_GAP = "unread-file"

Pod = Mapping[str, Any]


class FileWatch:
    """One log of one stage.

    Args:
        work: The stage.
        writer: Its spool.
        path: Of the file as the blueprint has it, or empty. Where it says `{uid}`, it is not known before `belong_to`.
        argv: Prints the log from its beginning; empty if it is a file.
    """

    def __init__(self, work: StageWork, writer: SpoolWriter, *, path: str, argv: tuple[str, ...]) -> None:
        self._work = work
        self._writer = writer
        self._pattern = path
        self._path = ""
        self._argv = argv
        self._source: SpooledSource | None = None
        self._cutter: FileCutter | None = None
        self._is_last = False
        self._error: Exception | None = None
        self.is_read = False
        """Whether all is in the spool that was in the log after the stage's end."""
        self.has_pod = False
        """True if there was a pod to read in at the last look."""

    @property
    def is_failing(self) -> bool:
        """True if the log cannot be read, or kept, at present."""
        return self._error is not None

    def belong_to(self, pod: Pod | None) -> None:
        """The log is that of this pod; of the one before if there is none: a pod may go before its log is read."""
        if pod is not None:
            self._path = self._work.text(self._pattern).replace(UID, str(pod["metadata"]["uid"]))

    def end_soon(self) -> None:
        """The stage has ended: read what is left, once, and be done."""
        self._is_last = True

    async def follow_in(self, connection: Connection, pod: Pod | None, container: str, troubles: Troubles) -> None:
        """Read in the pod that there is for it, if there is one. What goes wrong is told, and tried again.

        Raises:
            ConsoleError, OSError: The log cannot be read, or kept, now.
        """
        self.has_pod = pod is not None
        if pod is None:
            return
        try:
            await self._follow(connection, pod, container or pod["spec"]["containers"][0]["name"])
        except (RefusedError, MissingError):  # no such file yet, or the container has not begun, or has ended
            return
        except (ConsoleError, OSError) as error:
            self._error = error
            does = "kept" if isinstance(error, OSError) else "read"
            if not isinstance(error, UnreachableError):  # connections break all the time: it is read on
                troubles.set(_TOPIC, f"Logs cannot be {does}: {sentence_of(error)}")
            raise
        finally:
            if self._error is None:
                troubles.clear(_TOPIC)

    async def _follow(self, connection: Connection, pod: Pod, container: str) -> None:
        """Read in one pod until the connection breaks, the file is silent, or another one has taken its place."""
        if not self._path and UID not in self._pattern:
            self._path = self._work.text(self._pattern)
        place = Place(pod["metadata"]["namespace"], pod["metadata"]["name"], container)
        if self._argv:
            await self._follow_program(connection, place, str(pod["metadata"]["uid"]))
            self.is_read = self._is_last
            return
        state = await find_file(connection.session, place, self._path) if self._path else None
        self._error = None  # it lets us in
        if state is None:
            self.is_read = self._is_last
            return
        await self._follow_file(connection, place, pod, state)

    async def _follow_file(self, connection: Connection, place: Place, pod: Pod, state: FileState) -> None:
        source = self._taken_up(place, state.path, f"{state.path}#{state.inode}{_owner_of(pod, place, state.path)}")
        if state.size_bytes < source.offset:
            self._writer.write_file_lines(source, [(self._marker("the file was cut short: reading it anew"), 0)])
        if state.size_bytes == source.offset and self._is_last:
            self.is_read = True
            return
        idle = CHOICE_SECONDS if is_choice(self._path) or UID in self._pattern else IDLE_SECONDS
        chunks = read_file(connection.session, place, state.path, offset=source.offset, idle_seconds=idle)
        await self._spool(chunks, FileCutter(source.offset), end=state.size_bytes)

    async def _follow_program(self, connection: Connection, place: Place, pod_uid: str) -> None:
        source = self._taken_up(place, self._argv[0], f"{' '.join(self._argv)}#{pod_uid}")
        chunks = _behind(follow_output(connection.session, place, self._argv), source.offset)
        await self._spool(chunks, FileCutter(source.offset), end=None)

    async def _spool(self, chunks: AsyncIterator[bytes], cutter: FileCutter, *, end: int | None) -> None:
        """Keep lines as they come; at the stage's end, stop where the file ended when it was last looked at."""
        self._cutter = cutter
        async for chunk in chunks:
            self._keep(cutter.feed(chunk))
            self._error = None
            self._writer.close_gap(_GAP)
            if self._is_last and end is not None and cutter.position >= end:
                self.is_read = True
                return

    def finish(self) -> None:
        """Keep the last line even if it has no newline: nobody writes to the file any more.

        Raises:
            OSError: The disk is full.
        """
        if self._error is not None:
            does = "kept" if isinstance(self._error, OSError) else "read"
            why = f"{self._pattern or self._argv[0]} could not be {does} to its end: {sentence_of(self._error)}"
            self._writer.open_gap(self._source, _GAP, why.rstrip("."))
        if self._cutter is not None:
            self._keep(self._cutter.finish())
        if self._source is not None and not self._source.is_ended:
            self._writer.write_end(self._source, None, "Ended")

    def _keep(self, lines: list[FileLine]) -> None:
        if lines and self._source is not None:
            now = int(self._work.clock.now().timestamp() * 1e9)
            self._writer.write_file_lines(self._source, [(LogLine(now, line.text), line.end) for line in lines])

    def _taken_up(self, place: Place, shown: str, uid: str) -> SpooledSource:
        self._source = self._writer.source(place.namespace, place.pod, shown, uid)
        return self._source

    def _marker(self, text: str) -> LogLine:
        now = int(self._work.clock.now().timestamp() * 1e9)
        return LogLine(now, f"-- {text} --", is_marker=True)


def newest_running(pods: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Of the pods that a selector finds, the one to read in: the youngest that runs."""
    return newest(
        [
            pod
            for pod in pods
            if (pod.get("status") or {}).get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
        ]
    )


def newest(pods: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The youngest of some pods."""
    return max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), default=None)


async def _behind(chunks: AsyncIterator[bytes], offset: int) -> AsyncIterator[bytes]:
    """What comes behind the first `offset` bytes."""
    async for chunk in chunks:
        skipped = min(offset, len(chunk))
        offset -= skipped
        if skipped < len(chunk):
            yield chunk[skipped:]


def _owner_of(pod: Pod, place: Place, path: str) -> str:
    """The pod's uid for a file of its own; empty for one on a claim, which is the same file in every pod."""
    claims = {entry["name"] for entry in pod["spec"].get("volumes") or () if (entry.get("persistentVolumeClaim") or {})}
    for container in pod["spec"]["containers"]:
        for mount in container.get("volumeMounts") or ():
            is_under = path.startswith(str(mount["mountPath"]).rstrip("/") + "/")
            if container["name"] == place.container and mount["name"] in claims and is_under:
                return ""
    return f"@{pod['metadata']['uid']}"
