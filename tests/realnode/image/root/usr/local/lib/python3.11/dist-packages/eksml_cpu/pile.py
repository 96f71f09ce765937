"""The common part of the three programs that prepare the Pile: a process's share of the files, and its lines."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from eksml_cpu.settings import Settings


def settings() -> tuple[Settings, Path]:
    """The configuration, whose options stand in words of their own, and the data folder."""
    words = list(sys.argv[1:])
    given = Settings(words)
    return given, Path(given.text("data_dir", "/fsx_shared/data"))


def share(given: Settings) -> list[int]:
    """The numbers of `file_numbers=FIRST-LAST` that this rank of mpirun works on: its part, in one piece."""
    first, _, last = given.text("file_numbers", "0-0").partition("-")
    numbers = list(range(int(first), int(last or first) + 1))
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
    size = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
    each, more = divmod(len(numbers), size)
    begin = rank * each + min(rank, more)
    return numbers[begin : begin + each + (rank < more)]


def say(text: str) -> None:
    """Print a line in one piece, so that lines of several ranks are not mixed."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
