"""Our operators behave as the recorded ones did: what they make, name, label, own, delete, and tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.operators.kuberay import KUBERAY
from tests.operators.mpi import MPI
from tests.operators.operator import FIXTURES, Operator
from tests.operators.replay import replayed
from tests.operators.training import TRAINING
from tests.operators.volcano import VOLCANO, VOLCANO_WEBHOOKS
from tests.support.virtual import virtually

OPERATORS = (TRAINING, MPI, KUBERAY, VOLCANO, VOLCANO_WEBHOOKS)
"""Every operator that has recordings; a new one is added here."""

_EVERYTHING = [(operator, scenario) for operator in OPERATORS for scenario in operator.scenarios()]


@pytest.mark.parametrize(("operator", "scenario"), _EVERYTHING, ids=[f"{o.version}/{s}" for o, s in _EVERYTHING])
@virtually
async def test_our_operator_behaves_as_the_recorded_one(operator: Operator, scenario: str, tmp_path: Path) -> None:
    found = await replayed(operator, scenario, tmp_path)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("operator", OPERATORS, ids=[operator.version for operator in OPERATORS])
def test_every_recording_is_re_enacted_or_left_out_for_a_reason(operator: Operator) -> None:
    assert all(operator.left_out.values())
    there = {path.stem for path in (FIXTURES / operator.version).glob("*.jsonl")}
    assert set(operator.left_out) <= there
    assert there <= {*operator.scenarios(), *operator.left_out}
