"""Troubles of which no sample is kept: one case for every code of the vocabulary, and more wordings."""

from __future__ import annotations

import pytest

from actions.cluster.diagnose.codes import Code, severity_of
from tests.unit.diagnose import cases_capacity, cases_containers, cases_devices, cases_scheduling
from tests.unit.diagnose.samples import Document, a_container, a_node, a_pod, an_event, codes, is_quoted, why
from tests.unit.diagnose.troubles import fleet, gpus, launcher

CASES = [*cases_capacity.CASES, *cases_scheduling.CASES, *cases_containers.CASES, *cases_devices.CASES]


@pytest.mark.parametrize(("code", "document"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_trouble_has_its_code_first(code: str, document: Document) -> None:
    found = why(document)
    assert [one.code.value for one in found][:1] == [code]
    assert found[0].severity is severity_of(Code(code))
    for one in found:
        assert one.evidence
        assert all(is_quoted(quote, document) for quote in one.evidence), one.evidence


def test_every_code_has_a_case_or_a_sample() -> None:
    of_teardown = {"DELETION_HELD"}  # tests/unit/run/test_diagnosis.py
    kept = {"IMAGE_ARCH", "OOM_KILLED", "NOT_KNOWN", *of_teardown}
    without = {code.value for code in Code} - {case[1] for case in CASES} - kept
    assert not without, "codes without a case in tests/unit/diagnose/cases_*.py"


@pytest.mark.parametrize(
    ("document", "forbidden"),
    [
        (fleet("VcpuLimitExceeded: limit of 0"), {"CAPACITY", "GPU_SHORTAGE"}),
        (gpus(100, 690, 2400), {"LIKELY_HANG"}),
        (gpus(100, 118, 20), {"LIKELY_HANG"}),
        ({"logs": "NCCL INFO NET/OFI Selected Provider is efa\nNCCL INFO NET/Socket : Using eth0"}, {"EFA_NOT_USED"}),
        (launcher("", "Pending"), {"CRASH_LOOP"}),
        ({"logs": "NVRM: Xid (PCI:0000:79:00): 31, pid=1"}, {"GPU_LOST"}),
    ],
)
def test_what_would_mislead_is_not_said(document: Document, forbidden: set[str]) -> None:
    assert not set(codes(document)) & forbidden


def test_a_case_that_is_fine_has_no_findings() -> None:
    pod = a_pod(phase="Running", node="n1", containerStatuses=[a_container(ready=True, running={})])
    old = an_event("FailedMount", 'MountVolume.SetUp failed for volume "x" : timed out')
    node = a_node("n1", "p5.48xlarge", {"nvidia.com/gpu": "8"})
    logs = "Epoch 0:  12%|█▏        | 12/100 [00:10<01:20, v_num=0, train_loss=2.31]\n"
    assert codes({"pods": [pod], "nodes": [node], "events": [old], "logs": logs}) == []


def test_a_thousand_corrected_errors_hide_no_lost_gpu() -> None:
    corrected = "NVRM: Xid (PCI:0009:01:00): 121, C2C Link corrected error\n"
    lost = "NVRM: Xid (PCI:0000:74:00): 79, pid=31, GPU has fallen off the bus.\n"
    (found,) = why({"logs": corrected * 1000 + lost})
    assert "Xid 79 at PCI:0000:74:00" in found.headline
