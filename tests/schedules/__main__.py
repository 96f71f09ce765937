"""`python -m tests.schedules --seeds 0-199`: play seeds, two at a time, and write a summary."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path

import msgspec

from tests.schedules.playing import Played, impossible_here, play_seed


def main(words: Sequence[str] | None = None) -> int:
    """Play them all. Returns 1 if an invariant broke."""
    options = _parser().parse_args(words)
    missing = impossible_here()
    for kind, reason in missing.items():
        _say(f"left out: {kind.value}: {reason}")
    play_one = partial(play_seed, without=frozenset(missing), keep=options.keep)
    context = multiprocessing.get_context("spawn")
    results: list[Played] = []
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        waiting = [pool.submit(play_one, seed) for seed in options.seeds]
        try:
            for future in as_completed(waiting):
                result = future.result()
                results.append(result)
                _tell(result, is_verbose=options.verbose)
        except KeyboardInterrupt:
            _say("interrupted")
            pool.shutdown(cancel_futures=True)
    summary = _summary(results, {kind.value: reason for kind, reason in missing.items()})
    if options.summary:
        options.summary.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    _say(json.dumps({name: summary[name] for name in ("lives", "broken", "seconds", "injected")}, indent=2))
    return 1 if summary["broken"] else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.schedules", description=__doc__)
    parser.add_argument("--seeds", type=_seeds, default=_seeds("0-199"), metavar="A-B,C", help="default: 0-199")
    parser.add_argument("--jobs", type=int, default=2, help="lives at a time (default: 2)")
    parser.add_argument("--summary", type=Path, metavar="FILE", help="write it as JSON, with every life")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep all files of lives that break something, by their seeds"
    )
    parser.add_argument("--verbose", action="store_true", help="tell every life step by step")
    return parser


def _seeds(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _tell(result: Played, *, is_verbose: bool) -> None:
    word = "BROKEN" if result.broken else "held"
    _say(f"{result.seed:4} {word:6} {result.seconds:5.1f} s  {', '.join(result.injected)}")
    if result.broken or is_verbose:
        _say(result.report())


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _summary(results: list[Played], missing: dict[str, str]) -> dict[str, object]:
    results = sorted(results, key=lambda result: result.seed)
    injected = Counter(kind for result in results for kind in result.injected)
    by_kind = Counter(kind for result in results if result.broken for kind in set(result.injected))
    return {
        "lives": len(results),
        "broken": [result.seed for result in results if result.broken],
        "seconds": round(sum(result.seconds for result in results), 1),
        "injected": dict(sorted(injected.items())),
        "broken by kind": dict(sorted(by_kind.items())),
        "left out": missing,
        "each": [msgspec.to_builtins(result) for result in results],
    }


if __name__ == "__main__":
    sys.exit(main())
