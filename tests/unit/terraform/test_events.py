"""The event stream: what is read, what is tolerated, what is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.base.errors import FormatError
from actions.terraform.events import EventKind, read_event


def line(**fields: object) -> bytes:
    return json.dumps({"@level": "info", "@message": "m", "@module": "terraform.ui", **fields}).encode()


def test_a_hook_gives_address_action_and_time() -> None:
    hook = {"resource": {"addr": "terraform_data.a"}, "action": "create", "elapsed_seconds": 10}
    event = read_event(line(type="apply_progress", hook=hook))

    assert event is not None
    assert (event.kind, event.address, event.action, event.elapsed_seconds) == (
        EventKind.APPLY_PROGRESS,
        "terraform_data.a",
        "create",
        10.0,
    )


def test_a_diagnostic_gives_summary_and_detail() -> None:
    event = read_event(line(type="diagnostic", diagnostic={"severity": "error", "summary": "No", "detail": "a\nb"}))

    assert event is not None
    assert (event.severity, event.message, event.detail) == ("error", "No", "a\nb")


def test_a_failed_script_is_told_by_what_it_printed() -> None:
    script = "signed -X POST 'quoted'\nfor attempt in $(seq 1 600); do sleep 0.5; done"
    detail = f"Error running command '{script}': exit status 22. Output: '\nNodeGroup already exists with name gpu.\n"
    event = read_event(line(type="diagnostic", diagnostic={"severity": "error", "summary": "No", "detail": detail}))

    assert event is not None
    assert "signed" not in event.detail
    assert "NodeGroup already exists with name gpu." in event.detail
    assert event.detail.startswith("exit status 22")


def test_a_summary_names_its_operation() -> None:
    event = read_event(line(type="change_summary", changes={"add": 1, "operation": "apply", "action_fail": 0}))

    assert event is not None
    assert event.operation == "apply"


def test_unknown_types_and_plain_text_are_events_too() -> None:
    newer, text = read_event(line(type="list_resource_found", list={})), read_event(b"Successfully configured!")

    assert newer is not None
    assert text is not None
    assert (newer.kind, text.kind, text.message) == (EventKind.OTHER, EventKind.TEXT, "Successfully configured!")


@pytest.mark.parametrize("data", [b"", b"  ", "╷".encode(), "│ ".encode()])
def test_lines_without_content_are_no_events(data: bytes) -> None:
    assert read_event(data) is None


def test_another_major_version_is_refused() -> None:
    assert read_event(line(type="version", terraform="1.15.0", ui="1.9")) is not None
    with pytest.raises(FormatError, match=r"version 2\.0"):
        read_event(line(type="version", terraform="2.0.0", ui="2.0"))


def test_escapes_inside_json_and_secrets_are_removed() -> None:
    hook = {"resource": {"addr": "a\u001b]0;x\u0007"}, "output": "\u001b[2Jkey AKIAABCDEFGHIJKLMNOP end"}
    event = read_event(line(type="provision_progress", hook=hook))

    assert event is not None
    assert event.address == "a"
    assert "\x1b" not in event.message
    assert "AKIA" not in event.message


def test_the_script_of_a_provisioner_is_told_from_its_output() -> None:
    hook = {"resource": {"addr": "terraform_data.nodes"}}
    script = read_event(
        line(type="provision_progress", hook=hook | {"output": 'Executing: ["/bin/sh" "-c" "sleep 1"]'})
    )
    output = read_event(line(type="provision_progress", hook=hook | {"output": "The node group is active."}))
    assert script is not None
    assert output is not None
    assert (script.is_script, output.is_script) == (True, False)


@given(st.binary(max_size=300))
def test_any_bytes_are_read(data: bytes) -> None:
    event = read_event(data.replace(b"\n", b""))
    assert event is None or "\n" not in event.message


@given(
    st.dictionaries(
        st.sampled_from(["hook", "change", "diagnostic", "changes", "@message", "resource"]),
        st.one_of(st.none(), st.integers(), st.text(), st.lists(st.integers()), st.dictionaries(st.text(), st.text())),
    )
)
def test_any_shape_under_a_known_type_is_read(fields: dict[str, object]) -> None:
    assert read_event(line(**{**fields, "type": "apply_start"})) is not None


def test_a_line_of_many_megabytes_is_cut_for_the_screen() -> None:
    event = read_event(line(type="log", **{"@message": "x" * 5_000_000}))
    assert event is not None
    assert len(event.message) <= 2000
