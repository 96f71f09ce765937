"""`python -m tests.fuzz --seconds 240`: give changed samples to every reader of files, and keep what breaks one.

Broken is: another exception than a `ConsoleError`, one of a reader's own defects, more than `--each` seconds, more
memory than `--memory`. A seed plays the same inputs again, for as long as the machine is as quick.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from types import FrameType

from actions.base.errors import ConsoleError, ReaderDefectError
from tests.fuzz.changes import changed
from tests.fuzz.targets import Target, all_targets, read_quietly


class SlowError(BaseException):
    """A reader has taken too long."""


def main(words: Sequence[str] | None = None) -> int:
    """Fuzz, and return 1 if something broke."""
    options = _parser().parse_args(words)
    limit = options.memory << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.signal(signal.SIGALRM, _ring)
    targets = {name: one for name, one in all_targets().items() if name in options.only or not options.only}
    if options.file:
        data = options.file.read_bytes()
        return sum(_told(name, _broken(target, data, options.each)) for name, target in targets.items())
    count, broken = Counter[str](), dict[str, Path]()
    until = time.monotonic() + options.seconds
    for name, at in _turns(list(targets), until, options.seconds):
        data = _input(targets[name], random.Random(f"{options.seed} {name} {at}"))
        count[name] += 1
        reason = _broken(targets[name], data, options.each)
        if reason and _place_of(reason) not in broken:
            broken[_place_of(reason)] = _kept(options.keep, f"{name} {at}", data, reason)
    sys.stdout.write(f"{sum(count.values())} inputs, seed {options.seed}: {dict(count)}\n")
    sys.stdout.writelines(f"BROKEN {place}: {file}\n" for place, file in broken.items())
    return 1 if broken else 0


def _turns(names: list[str], until: float, seconds: float) -> Iterator[tuple[str, int]]:
    """Yield a name and the number of its input, each name for the same time."""
    for place, name in enumerate(names):
        end = until - seconds * (len(names) - place - 1) / len(names)
        at = 0
        while time.monotonic() < end:
            yield name, at
            at += 1


def _input(target: Target, dice: random.Random) -> bytes:
    samples = target.samples or (b"",)
    return changed(dice.choice(samples), dice, samples)


def _broken(target: Target, data: bytes, seconds: float) -> str:
    """Return the traceback of what went wrong; empty if nothing did."""
    with TemporaryDirectory(prefix="eksml-fuzz-") as folder:
        file = Path(folder) / target.name
        file.write_bytes(data)
        try:
            with _within(seconds):
                read_quietly(target, file)
        except ConsoleError as error:
            cause = error if isinstance(error, ReaderDefectError) else error.__cause__
            return "".join(traceback.format_exception(error)) if isinstance(cause, ReaderDefectError) else ""
        except (Exception, SlowError) as error:  # noqa: BLE001 - whatever it is, it is what is looked for
            return "".join(traceback.format_exception(error))
    return ""


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _ring(number: int, frame: FrameType | None) -> None:
    raise SlowError


def _place_of(reason: str) -> str:
    """Return the kind of a defect and the line of ours that it came from."""
    first = reason.partition("\n\nThe above exception was the direct cause")[0].strip().splitlines()
    ours = [line.strip() for line in first if "/actions/" in line or "/tui/" in line]
    return f"{first[-1].partition(':')[0]} at {ours[-1] if ours else '?'}"


def _kept(folder: Path, name: str, data: bytes, reason: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name.replace(" ", "-")
    file.write_bytes(data)
    file.with_suffix(".txt").write_text(reason, errors="replace")
    return file


def _told(name: str, reason: str) -> int:
    sys.stdout.write(f"{name}: {reason or 'held'}\n")
    return 1 if reason else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=240, help="in all (default: 240)")
    parser.add_argument("--seed", default="1", help="default: 1")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="a reader, instead of all")
    parser.add_argument("--file", type=Path, help="read this input alone")
    parser.add_argument("--each", type=float, default=10, metavar="SECONDS", help="for one input (default: 10)")
    parser.add_argument("--memory", type=int, default=2048, metavar="MiB", help="address space (default: 2048)")
    parser.add_argument("--keep", type=Path, default=Path(gettempdir()) / "eksml-fuzz", help="of what broke")
    return parser


if __name__ == "__main__":
    sys.exit(main())
