"""The objects that an operation may have made and that no state holds, from its events alone."""

from __future__ import annotations

import json
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from actions.terraform.events import ChangeState, OperationProgress, PendingOperation, TerraformEvent, read_events

HEARD = (
    "\nInterrupt received.\nPlease wait for Terraform to exit or data loss may occur.\nGracefully shutting down...\n"
)
HEARD_TWICE = "\nTwo interrupts received. Exiting immediately. Note that data loss may have occurred.\n"


def line(kind: str, **fields: object) -> bytes:
    head = {"@level": "info", "@message": "m", "@module": "terraform.ui", "@timestamp": "2026-11-22T11:23:00.3Z"}
    return json.dumps({**head, **fields, "type": kind}).encode()


def hook(kind: str, address: str, action: str = "create", **more: object) -> bytes:
    resource = {"addr": address, "resource_type": address.rpartition("module.x.")[2].split(".")[0]}
    return line(kind, hook={"resource": resource, "action": action, **more})


def said(text: str) -> bytes:
    return line("log", **{"@message": text})


def problem(address: str = "") -> bytes:
    return line("diagnostic", diagnostic={"severity": "error", "summary": "no", "address": address})


SUMMARY = line("change_summary", changes={"add": 1, "operation": "apply"})
GROUP = "module.x.aws_eks_node_group.this[0]"


def events_of(lines: Iterable[bytes]) -> list[TerraformEvent]:
    return [event for item in lines for event in read_events(item)]


def progress_of(*lines: bytes, operation: str = "apply") -> OperationProgress:
    return OperationProgress.of(operation, events_of(lines))


def test_a_create_without_an_end_may_exist() -> None:
    killed = progress_of(hook("apply_start", GROUP))
    assert killed.pending(()) == (PendingOperation(GROUP, "create", "aws_eks_node_group"),)
    assert [change.address for change in killed.under_way] == [GROUP]


def test_what_the_state_tracks_is_not_pending() -> None:
    assert progress_of(hook("apply_start", GROUP)).pending({GROUP}) == ()


def test_what_was_made_and_is_in_no_state_is_pending_with_its_id() -> None:
    made = hook("apply_complete", GROUP, id_key="id", id_value="c:g")
    assert progress_of(hook("apply_start", GROUP), made).pending(()) == (
        PendingOperation(GROUP, "create", "aws_eks_node_group", "c:g"),
    )


def test_an_operation_that_told_its_end_leaves_nothing_pending() -> None:
    started, failed = hook("apply_start", GROUP), hook("apply_errored", GROUP)
    assert progress_of(started, failed, problem(GROUP)).pending(()) == ()
    assert progress_of(started, hook("apply_complete", GROUP), SUMMARY).pending(()) == ()


def test_two_interrupts_make_even_a_told_failure_uncertain() -> None:
    lines = [hook("apply_start", GROUP), said(HEARD), hook("apply_errored", GROUP), said(HEARD_TWICE), problem()]
    progress = progress_of(*lines)
    assert progress.has_heard_twice
    assert [item.address for item in progress.pending(())] == [GROUP]


def test_what_was_being_destroyed_or_changed_is_in_the_state() -> None:
    lines = [hook("apply_start", GROUP, "delete"), hook("apply_start", "aws_vpc.a", "update")]
    assert progress_of(*lines, operation="destroy").pending(()) == ()


def test_a_replacement_is_pending_for_its_second_half() -> None:
    lines = [hook("apply_start", GROUP, "delete"), hook("apply_complete", GROUP, "delete"), hook("apply_start", GROUP)]
    assert [item.action for item in progress_of(*lines).pending(())] == ["create"]
    first = [hook("apply_start", GROUP), hook("apply_complete", GROUP), hook("apply_start", GROUP, "delete")]
    assert [item.action for item in progress_of(*first).pending(())] == ["create"]


def test_what_exists_in_the_state_alone_is_harmless_unless_a_provisioner_ran() -> None:
    for address in ("terraform_data.a", "null_resource.a", "random_id.a", "time_sleep.a", "tls_private_key.a"):
        assert progress_of(hook("apply_start", address)).pending(()) == ()
    provisioned = progress_of(hook("apply_start", "terraform_data.a"), hook("provision_start", "terraform_data.a"))
    assert [item.address for item in provisioned.pending(())] == ["terraform_data.a"]
    assert progress_of(hook("apply_start", "local_file.a")).pending(()) != ()


def test_an_error_is_told_with_its_resource() -> None:
    progress = progress_of(hook("apply_start", GROUP), hook("apply_errored", GROUP), problem(GROUP))
    assert [(change.step, change.error) for change in progress.changes] == [(ChangeState.FAILED, "no")]


def test_what_a_program_prints_is_no_interrupt() -> None:
    assert not progress_of(hook("provision_progress", "terraform_data.a", output=HEARD)).has_heard


def test_a_line_torn_by_a_full_disk_and_the_one_glued_to_it_are_both_read() -> None:
    whole = hook("apply_complete", GROUP)
    torn = hook("apply_start", GROUP)[:90]
    events = events_of([torn + SUMMARY])
    assert [event.kind for event in events] == ["text", "change_summary"]
    assert [event.kind for event in events_of([whole + whole + SUMMARY])] == ["apply_complete"] * 2 + ["change_summary"]
    assert progress_of(torn + SUMMARY).is_summarised


@given(st.lists(st.sampled_from(["apply_start", "apply_complete", "apply_errored"]), max_size=6), st.data())
def test_any_cut_of_a_stream_names_every_create_that_was_begun_and_is_not_tracked(
    kinds: list[str], data: st.DataObject
) -> None:
    addresses = [f"aws_x.r{index}" for index in range(len(kinds))]
    lines = []
    for address, kind in zip(addresses, kinds, strict=True):
        lines.append(hook("apply_start", address))
        if kind != "apply_start":
            lines.append(hook(kind, address))
    cut = data.draw(st.integers(0, len(lines)))
    begun = {event.address for event in events_of(lines[:cut])}
    tracked = data.draw(st.sets(st.sampled_from(addresses), max_size=3)) if addresses else set()
    assert {item.address for item in progress_of(*lines[:cut]).pending(tracked)} == begun - tracked
