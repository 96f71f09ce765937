"""The scripts of systems on GPUs, on the sandbox; `test_rehearsal` looks at the BioNeMo rehearsal more closely."""

from __future__ import annotations

import pytest

from tests.flow.scripts import play
from tests.support.program import Program


@pytest.mark.parametrize(
    "name", ["bionemo-esm1nv-fails", "efa-nccl-tests", "efa-nccl-tests-fails", "nemo-gpt3-5b", "nemo-gpt3-5b-fails"]
)
def test_a_script_ends_as_it_says_with_nothing_left(name: str, program: Program) -> None:
    play(name, program)
