"""The output of one rank of nccl-tests over EFA and over sockets, its failures, and the list of fi_info."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from actions.sandbox.kubelet.images import program_of
from actions.sandbox.programs.nccl import nccl_tests
from actions.sandbox.programs.nccl.fabric import list_adapters
from actions.sandbox.programs.program import ContainerView, PeerLost
from actions.telemetry.tools.bandwidth import judge_adapters, judge_bandwidth, load_references
from actions.telemetry.tools.collectives import NcclReading, read_nccl
from actions.telemetry.tools.efa import read_fi_info
from tests.unit.sandbox.programs.containers import Outcome, a_container, context
from tests.unit.sandbox.programs.containers import run as played

_COMMAND = "/opt/nccl-tests/build/all_reduce_perf -b 8 -e 16G -f 2 -g 1 -c 1 -n 100"
_G5 = next(one for one in load_references() if one.instance_type == "g5.8xlarge")


def _rank(
    rank: int = 0,
    *,
    size: int = 2,
    instance_type: str = "g5.8xlarge",
    efa: int = 1,
    gpus: int = 1,
    command: str = _COMMAND,
    **environment: str,
) -> ContainerView:
    group = {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank % gpus),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(gpus),
    }
    made = a_container(f"efa-nccl-test-worker-{rank // gpus}", tuple(command.split()), gpus=tuple(range(gpus)))
    known = made.environment | group | environment
    return replace(made, environment=known, instance_type=instance_type, efa_interfaces=efa)


def _played(container: ContainerView) -> Outcome:
    return played(nccl_tests.run(container))


def _reading(container: ContainerView) -> NcclReading:
    return read_nccl(_played(container).text)


def test_two_g5_nodes_are_as_fast_as_the_captured_ones() -> None:
    outcome = _played(_rank(NCCL_DEBUG="WARN"))
    reading = read_nccl(outcome.text)
    assert outcome.exit_code == 0
    assert "# Reducing maxBytes to 7624" in outcome.text
    assert "#  Rank  1 Group  0 Pid     33 on efa-nccl-test-worker-1 device  0 [0000:00:1e] NVIDIA A10G" in outcome.text
    assert (len(reading.rows), reading.rows[-1].size) == (30, 4 << 30)
    judged = judge_bandwidth(reading, _G5, at_least_percent=95, from_bytes=1 << 20)
    assert [one.is_good for one in judged] == [True, True, None, True]


def test_sixteen_ranks_on_p5_reach_the_captured_peak() -> None:
    reading = _reading(_rank(size=16, instance_type="p5.48xlarge", efa=32, gpus=8))
    assert reading.rows[-1].size == 16 << 30
    assert reading.rows[-1].out_of_place.busbw == pytest.approx(480, rel=0.03)


def test_info_says_that_it_goes_over_efa_and_without_interfaces_over_sockets() -> None:
    assert _reading(_rank(NCCL_DEBUG="INFO")).is_efa
    slow = _reading(_rank(efa=0, NCCL_DEBUG="INFO"))
    assert slow.is_efa is False
    assert slow.peak_busbw is not None
    assert slow.peak_busbw < 2.5


def test_efa_without_remote_read_aborts_where_it_is_required() -> None:
    outcome = _played(_rank(FI_EFA_USE_DEVICE_RDMA="1"))
    assert outcome.exit_code == 134
    assert "FI_EFA_USE_DEVICE_RDMA=1 was set by user, but EFA device has no rdma-read capability." in outcome.err
    assert _played(_rank(instance_type="p4d.24xlarge", efa=4, FI_EFA_USE_DEVICE_RDMA="1")).exit_code == 0


def test_a_rank_whose_peer_is_lost_says_so() -> None:
    program = nccl_tests.run(_rank(1))
    next(program)
    said = program.throw(PeerLost()).text
    assert "Connection closed by remote peer" in said
    assert "ncclRemoteError" in said


def test_fi_info_lists_every_interface_and_its_absence() -> None:
    two = _rank(command="/opt/amazon/efa/bin/fi_info -p efa -t FI_EP_RDM", instance_type="p5.48xlarge", efa=32)
    listed = played(program_of(context(two)))
    assert [one.is_good for one in judge_adapters(read_fi_info(listed.text), ranks=1, adapters=32)] == [True]
    none = played(list_adapters(replace(two, efa_interfaces=0)))
    assert (none.exit_code, none.err) == (61, "fi_getinfo: -61 (No data available)\n")


def test_g5_has_its_adapter_where_the_captured_one_was() -> None:
    listed = played(list_adapters(_rank(command="fi_info -p efa")))
    assert "domain: rdmap0s29-rdm\n    version: 122.0\n" in listed.out
