"""Probes that fail, in the kubelet's own words: which one, what it asks, how often, and what to do about it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from actions.cluster.diagnose.codes import Finding
from actions.cluster.diagnose.engine import answer
from actions.cluster.diagnose.parse_input import evidence_of
from tests.unit.diagnose.samples import Document, a_container, a_pod, an_event

_NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
_HTTP = {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 5, "failureThreshold": 3}
_REFUSED = 'Get "http://10.88.0.5:8080/ready": dial tcp 10.88.0.5:8080: connect: connection refused'


def _ago(seconds: float) -> str:
    return (_NOW - timedelta(seconds=seconds)).isoformat()


def _pod(
    kind: str, probe: Document, *, runs_for: float, unready_for: float | None = None, restarts: int = 0
) -> Document:
    """A pod whose only container runs, and is not ready for some seconds; `None` for one that is ready."""
    last: Document | None = {"exitCode": 137, "reason": "Error"} if restarts else None
    is_ready = unready_for is None
    state = a_container(restarts, ready=is_ready, last=last, running={"startedAt": _ago(runs_for)})
    ready: Document = {"type": "Ready", "status": "True", "lastTransitionTime": _ago(runs_for)}
    if unready_for is not None:
        unready = {"reason": "ContainersNotReady", "message": "containers with unready status: [main]"}
        ready |= {"status": "False", "lastTransitionTime": _ago(unready_for), **unready}
    pod = a_pod(phase="Running", node="n1", containerStatuses=[state], conditions=[ready])
    pod["spec"]["containers"] = [{"name": "main", f"{kind}Probe": probe}]
    return pod


def _failed(kind: str, said: str, times: int, *, ago: float = 4) -> Document:
    event = an_event("Unhealthy", f"{kind} probe {said}")
    return event | {"count": times, "lastTimestamp": _ago(ago)}


def _killed(kind: str, times: int) -> Document:
    event = an_event("Killing", f"Container main failed {kind} probe, will be restarted", type_="Normal")
    return event | {"count": times, "lastTimestamp": _ago(9)}


def _told(*documents: Document) -> Finding | None:
    found = answer(evidence_of(documents, taken_at=_NOW.timestamp()), is_one=True)
    assert len(found) < 2
    return found[0] if found else None


def _why(*documents: Document) -> Finding:
    found = _told(*documents)
    assert found is not None
    return found


def test_a_readiness_probe_that_fails_is_named_with_what_it_asks_how_often_and_since_when() -> None:
    found = _why(
        _pod("readiness", _HTTP, runs_for=700, unready_for=702), _failed("Readiness", f"failed: {_REFUSED}", 19)
    )
    assert (found.code.value, found.severity.value) == ("PROBE_FAILED", "warning")
    assert found.headline == (
        "Container main of train-0 runs but is not ready for 11m40s: its readiness probe (GET :8080/ready, every 5 s)"
        f" failed 19 times, last 4s ago: {_REFUSED}"
    )
    assert found.evidence == (f"Readiness probe failed: {_REFUSED}", "containers with unready status: [main]")
    assert found.next_step.startswith("Nothing listens there: compare the port")


@pytest.mark.parametrize(
    ("runs_for", "unready_for", "times", "severity", "code"),
    [
        (8, 10, 2, "info", "NOT_READY"),  # it has just been started
        (30, 32, 6, "info", "PROBE_FAILED"),
        (500, 502, 100, "info", "PROBE_FAILED"),  # a model is loaded
        (700, 702, 140, "warning", "PROBE_FAILED"),
        (500, 20, 4, "warning", "PROBE_FAILED"),  # it was ready before
    ],
)
def test_a_program_that_may_still_load_is_no_warning(
    runs_for: float, unready_for: float, times: int, severity: str, code: str
) -> None:
    pod = _pod("readiness", _HTTP, runs_for=runs_for, unready_for=unready_for)
    found = _why(pod, _failed("Readiness", f"failed: {_REFUSED}", times))
    assert (found.code.value, found.severity.value) == (code, severity)


def test_a_count_that_the_kubelet_has_cut_is_a_lower_bound_without_a_time() -> None:
    pod = _pod("readiness", _HTTP, runs_for=700, unready_for=702)
    found = _why(pod, _failed("Readiness", f"failed: {_REFUSED}", 25, ago=600))
    assert f"failed at least 25 times: {_REFUSED}" in found.headline


def test_failures_whose_words_differ_are_counted_together() -> None:
    resets = [
        _failed("Readiness", f"failed: Get: read tcp 10.0.0.1:{port}->10.0.0.5:8080: read: connection reset by peer", 1)
        for port in range(40000, 40004)
    ]
    found = _why(_pod("readiness", _HTTP, runs_for=30, unready_for=32), *resets)
    assert "failed 4 times" in found.headline


def test_a_startup_probe_has_the_time_that_it_was_given() -> None:
    probe = {"tcpSocket": {"port": "http"}, "failureThreshold": 360}
    pod = _pod("startup", probe, runs_for=2000, unready_for=2002)
    found = _why(pod, _failed("Startup", "failed: dial tcp 10.88.0.5:8080: connect: connection refused", 200))
    assert (found.code.value, found.severity.value) == ("PROBE_FAILED", "info")
    assert "startup probe (TCP :http, every 10 s)" in found.headline


@pytest.mark.parametrize("kind", ["liveness", "startup"])
def test_a_container_that_its_probe_kills_again_and_again_is_an_error_also_while_it_runs(kind: str) -> None:
    probe = {"exec": {"command": ["cat", "/tmp/alive"]}, "periodSeconds": 1}
    pod = _pod(kind, probe, runs_for=2, unready_for=3, restarts=3)
    failed = _failed(kind.title(), "failed: cat: /tmp/alive: No such file or directory", 9)
    found = _why(pod, failed, _killed(kind, 3))
    assert (found.code.value, found.severity.value) == ("PROBE_FAILED", "error")
    assert found.headline.startswith(
        f"The kubelet restarts container main of train-0 (3 restarts so far): its {kind} probe (cat /tmp/alive, every"
        " 1 s) failed 9 times"
    )
    assert found.evidence[1] == f"Container main failed {kind} probe, will be restarted"


def test_a_container_that_is_ready_between_two_kills_is_told_and_one_that_missed_a_probe_is_not() -> None:
    failed = _failed("Liveness", f"failed: {_REFUSED}", 3)
    again = _why(_pod("liveness", _HTTP, runs_for=5, restarts=1), failed, _killed("liveness", 1))
    assert (again.code.value, again.severity.value) == ("PROBE_FAILED", "warning")
    assert _told(_pod("liveness", _HTTP, runs_for=500), _failed("Liveness", f"failed: {_REFUSED}", 1)) is None


@pytest.mark.parametrize(
    ("said", "step"),
    [
        ("failed: HTTP probe failed with statuscode: 404", "correct the path"),
        ("failed: HTTP probe failed with statuscode: 503", "read its log"),
        ('failed: Get "http://10.88.0.5:8080/": context deadline exceeded (Client.Timeout exceeded)', "timeoutSeconds"),
        ('failed: command "sleep 9" timed out after 1s', "timeoutSeconds"),
        ('failed: timeout: failed to connect service "10.88.0.5:9000" within 1s: context deadline exceeded', "timeout"),
        ("failed: error: this server does not implement the grpc health protocol", "See what the probe asks"),
        (
            "errored and resulted in unknown state: rpc error: code = Unknown desc = failed to exec in container: OCI"
            ' runtime exec failed: exec: "curl": executable file not found in $PATH: unknown',
            "The image lacks what the probe runs",
        ),
        ("failed: ", "See what the probe asks"),
    ],
)
def test_the_answer_of_a_probe_decides_on_the_remedy(said: str, step: str) -> None:
    found = _why(_pod("readiness", _HTTP, runs_for=700, unready_for=702), _failed("Readiness", said, 60))
    assert step in found.next_step


def test_a_probe_that_only_warns_says_nothing() -> None:
    warning = an_event("ProbeWarning", "Readiness probe warning: Probe terminated redirects, Response body: <html>")
    assert _told(_pod("readiness", _HTTP, runs_for=700), warning) is None
