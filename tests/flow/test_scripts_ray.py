"""The scripts of Trainium with Ray on the sandbox: a whole life, and one that fails; `test_recordings` resumes one."""

from __future__ import annotations

import pytest

from tests.flow.scripts import play
from tests.support.program import Program


@pytest.mark.parametrize("name", ["llama2-trn1-ray", "llama2-trn1-ray-fails"])
def test_a_script_ends_as_it_says_with_nothing_left(name: str, shared_program: Program) -> None:
    play(name, shared_program)
