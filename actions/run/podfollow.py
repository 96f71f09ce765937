"""One container's log, followed into a stage's spool until all of it is there, or it can never be."""

from __future__ import annotations

from actions.base.errors import AccessError, ConsoleError
from actions.cluster.http.errors import ApiError
from actions.cluster.logs.batch import LogBatch
from actions.cluster.logs.follow import ContainerEnd, LogFollower, LogObserver, LogSource
from actions.run.patience import ONCE, Pace
from actions.run.spool import SpooledSource, SpoolWriter
from actions.run.troubles import Troubles, sentence_of
from actions.run.work import StageWork

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
"""Between two requests of somebody who is not let in: a right may be given any time."""
_SILENT_SECONDS = {True: 3.0, False: 15.0}
"""Nothing is said of a trouble that is so short; by whether it is one of rights: connections break all the time."""
_GONE = "gone"
_FORBIDDEN = 403


class PodFollower(LogObserver):
    """Asks again after every failure, from the last line that was kept.

    Args:
        work: The stage.
        writer: Its spool.
        troubles: Told what goes on for long.
        place: The container.
        source: Its place in the spool.
    """

    def __init__(
        self, work: StageWork, writer: SpoolWriter, troubles: Troubles, place: LogSource, source: SpooledSource
    ) -> None:
        self._work = work
        self._writer = writer
        self._troubles = troubles
        self._place = place
        self._source = source
        self._topic = f"log {place.pod}/{place.container}"
        self._key = f"unread-{source.line.number}"
        self._pace = self._new_pace()
        self._error: Exception | None = None
        self._failing_since = 0.0
        self._losses = 0

    @property
    def is_failing(self) -> bool:
        """True if the log cannot be read, or kept, at present."""
        return self._error is not None

    @property
    def is_forbidden(self) -> bool:
        """True if that is for a right that is missing."""
        return isinstance(self._error, ApiError) and self._error.status.code == _FORBIDDEN

    async def follow(self) -> None:
        """Follow to the container's end."""
        while not self._source.is_ended:
            try:
                connection = await self._work.connect(ONCE)
                follower = LogFollower(
                    connection.session,
                    self._place,
                    on_lines=self._keep,
                    since=self._source.cursor,
                    clock=self._work.clock,
                    observer=self,
                )
                self._end(await follower.run())
            except ConsoleError as error:
                self.failing(error)
                await self._pace.pause_after(error)
            except OSError as error:
                self.fail(error)
                await self._pace.pause_after()

    def give_up(self) -> None:
        """The stage is over, and it is not asked again."""
        if self._error is not None:
            self._say(self._error)
            self._lose(self._error)

    def reading(self) -> None:
        """See `LogObserver`. What the disk does not take is still not taken."""
        if not isinstance(self._error, OSError):
            self._heal()

    def failing(self, error: ConsoleError) -> None:
        """See `LogObserver`."""
        self.fail(error)

    def lost(self, why: str) -> None:
        """See `LogObserver`."""
        self._losses += 1
        self._writer.open_gap(self._source, f"lost-{self._source.line.number}-{self._losses}", why, mark="")

    def _keep(self, batch: LogBatch) -> None:
        self._writer.write(self._source, batch)
        self._heal()

    def _end(self, end: ContainerEnd) -> None:
        if self._error is not None and end.reason == _GONE:
            self._lose(self._error)
        else:
            self._heal()
        self._writer.write_end(self._source, end.exit_code, end.reason)
        self._troubles.clear(self._topic)

    def fail(self, error: Exception) -> None:
        """It does not work now; said once it has gone on for a while."""
        now = self._work.clock.monotonic()
        if self._error is None:
            self._failing_since = now
        self._error = error
        if now - self._failing_since >= _SILENT_SECONDS[isinstance(error, AccessError | OSError)]:
            self._say(error)

    def _say(self, error: Exception) -> None:
        if isinstance(error, OSError):
            self._troubles.set(self._topic, f"Logs cannot be kept: {sentence_of(error)}")
        else:  # its mark shows where; of what the disk does not take, nothing is lost yet
            self._troubles.set(self._topic, f"Logs cannot be read: {sentence_of(error)}")
            self._lose(error)

    def _lose(self, error: Exception) -> None:
        does, said = "kept" if isinstance(error, OSError) else "read", sentence_of(error).rstrip(".")
        mark = f"the log cannot be {does}: {said}"
        self._writer.open_gap(self._source, self._key, f"it could not be {does}: {said}", mark=mark)

    def _heal(self) -> None:
        if self._error is not None:
            self._error, self._pace = None, self._new_pace()
            self._troubles.clear(self._topic)
        # also one that an earlier runner has left open
        self._writer.close_gap(self._key, "the log goes on from where it stopped", self._source)

    def _new_pace(self) -> Pace:
        return Pace(self._work.clock, first_seconds=FIRST_PAUSE_SECONDS, longest_seconds=LONGEST_PAUSE_SECONDS)
