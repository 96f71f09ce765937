"""The scripts of EFA and BioNeMo that fail, on the sandbox; `test_recordings` and `test_rehearsal` have the others."""

from __future__ import annotations

import pytest

from tests.flow.scripts import play
from tests.support.program import Program


@pytest.mark.parametrize("name", ["bionemo-esm1nv-fails", "efa-nccl-tests-fails"])
def test_a_script_ends_as_it_says_with_nothing_left(name: str, shared_program: Program) -> None:
    play(name, shared_program)
