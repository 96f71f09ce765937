"""The pieces of an archive that are of the run itself, as text: records, stages, Terraform, the ends of its logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec

from actions.base.clock import Clock, time_of_day, timestamp_of
from actions.base.errors import JournalError
from actions.base.files import open_file
from actions.base.untrusted import clean_text, plain_text
from actions.run.journal.folder import blueprint_path, load_environment, runner_log_path
from actions.run.journal.reader import RunReader
from actions.run.output.reader import OutputReader
from actions.run.output.streams import stages_with_output
from actions.run.report import run_json, run_table
from actions.run.state.records import JournalRecord, encode_body, record_kind
from actions.run.state.view import RunView
from actions.run.support.surroundings import variable_names
from actions.run.terraform_changes import terraform_json, terraform_report, terraform_table

LOG_BYTES = 256 << 10
"""The end of each stage's log."""
_RUNNER_LOG_BYTES = 1 << 20
_FILE_BYTES = 1 << 20


class Piece(msgspec.Struct, frozen=True):
    """One file of an archive, before it is read.

    Args:
        name: Its path in the archive.
        about: What it is, in a few words.
        read: Returns its text; raises a `ConsoleError` if it cannot be had.
    """

    name: str
    about: str
    read: Callable[[], str]


def run_pieces(folder: Path, view: RunView | None, clock: Clock) -> Iterator[Piece]:
    """Yield what the folder of a run has; without a view, what can be had without its journal."""
    yield Piece("journal.txt", "every record of the journal", lambda: _journal(folder))
    yield Piece(
        "runner.log", "the end of the runner's log", lambda: _end_of(runner_log_path(folder), _RUNNER_LOG_BYTES)
    )
    if view is not None:
        now = clock.now().timestamp()
        yield Piece("run.txt", "the run and its stages", lambda: run_table(view, now=now))
        yield Piece("run.json", "the same for programs", lambda: run_json(view, now=now))
        yield Piece(
            "terraform.txt",
            "what Terraform holds and left open",
            lambda: terraform_table(terraform_report(folder, view), view.id),
        )
        yield Piece("terraform.json", "the same for programs", lambda: terraform_json(terraform_report(folder, view)))
    copy = blueprint_path(folder)
    yield Piece("blueprint.yaml", "the run's blueprint", lambda: _end_of(copy / "blueprint.yaml", _FILE_BYTES))
    for path in sorted({*copy.glob("*.yaml"), *copy.glob("common/*.yaml")} - {copy / "blueprint.yaml"}):
        name = str(path.relative_to(copy))
        yield Piece(name, "a piece of the run's blueprint", partial(_end_of, path, _FILE_BYTES))
    yield Piece(
        "environment-of-run.txt", "names of the run's variables", lambda: variable_names(load_environment(folder))
    )
    for stage in stages_with_output(folder):
        yield Piece(f"logs/{stage}.log", "the end of the stage's log", _log_of(folder, stage))


def _journal(folder: Path) -> str:
    reader = RunReader(folder)
    try:
        reader.poll()
        return "".join(map(_record_line, reader.records()))
    finally:
        reader.close()


def _record_line(record: JournalRecord) -> str:
    place = f"{record.stage}#{record.attempt}" if record.stage else "-"
    text = plain_text(encode_body(record.body)).replace("\n", " ")
    return f"{record.seq:6} {timestamp_of(record.at)} {record_kind(record.body)} {place} {text}\n"


def _log_of(folder: Path, stage: str) -> Callable[[], str]:
    def read() -> str:
        reader = OutputReader(folder, stage)
        offset, parts = reader.tail_offset(LOG_BYTES), []
        while True:
            lines, end = reader.lines(offset)
            parts += [f"{time_of_day(line.at_ns / 1e9)} {line.pod} {plain_text(line.text)}\n" for line in lines]
            if end == offset:
                return "".join(parts)
            offset = end

    return read


def _end_of(file: Path, most: int) -> str:
    """Return the end of a text file, from the beginning of a line on.

    Raises:
        JournalError: It cannot be read.
    """
    try:
        with open_file(file) as opened:
            size = opened.seek(0, 2)
            opened.seek(max(0, size - most))
            data = opened.read(most)
    except OSError as error:
        raise JournalError(f"{file.name} cannot be read: {error.strerror}.") from error
    if size > most:
        data = data.partition(b"\n")[2]
    return clean_text(data.decode("utf-8", "replace"))
