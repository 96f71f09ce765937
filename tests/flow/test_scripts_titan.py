"""The scripts of TorchTitan on the sandbox: the whole life, and one that fails on purpose."""

from __future__ import annotations

import pytest

from tests.flow.scripts import play
from tests.support.program import Program


@pytest.mark.parametrize("name", ["torchtitan-llama3-8b", "torchtitan-llama3-8b-fails"])
def test_a_script_ends_as_it_says_with_nothing_left(name: str, shared_program: Program) -> None:
    play(name, shared_program)
