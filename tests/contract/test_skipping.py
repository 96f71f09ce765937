"""A test is skipped for a program that is missing, named in `tests.support.missing`, and for nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.sources import ROOT, files_of_tests

_SKIPS = re.compile(r"pytest\.skip\(|mark\.skip\b|mark\.skipif|mark\.xfail|importorskip|pytest\.xfail")


def test_skips_are_in_one_place() -> None:
    allowed = {ROOT / "tests" / "support" / "missing.py", Path(__file__)}
    files = [path for path in files_of_tests() if path not in allowed]
    assert [str(path) for path in files if _SKIPS.search(path.read_text(encoding="utf-8"))] == []
