"""Rules for probes: containers that the kubelet restarts or keeps from traffic because they do not answer.

Source: kubelet `prober`, `probe` and `kuberuntime` (v1.2x–1.34): *Readiness probe failed: …*, *Liveness probe errored
and resulted in unknown state: …*, *Container … failed liveness probe, will be restarted*.
"""

from __future__ import annotations

import re

import msgspec

from actions.base.wording import counted, duration
from actions.cluster.diagnose.codes import Code, Finding, Severity, finding
from actions.cluster.diagnose.evidence import Container, Evidence, Pod
from actions.fleet.facts import EventFacts

_FAILED = re.compile(
    r"\b(?P<probe>Readiness|Liveness|Startup) probe (?:failed|errored)\b[^:\n]{0,80}:? ?(?P<answer>.*)"
)
_KILLED = re.compile(r"(?:Container (?P<container>\S+) )?failed (?P<probe>liveness|startup) probe")
_ENDED_BY_KUBELET = frozenset({0, 137, 143})
_PAST_SECONDS = 3600.0
_USUAL_FAILURES = 3
"""So many failures in a row are a failed probe, unless it has another `failureThreshold`."""
_MOST_EVENTS = 25
"""The kubelet writes no more of a pod at once, and then one in five minutes (docs/facts/real-node.md#events)."""

_REMEDIES = (
    (
        re.compile(r"connection refused"),
        "Nothing listens there: compare the port of the probe with that of the program, and have it listen on all"
        " addresses, not on 127.0.0.1 alone",
    ),
    (
        re.compile(r"executable file not found|no such file or directory|permission denied"),
        "The image lacks what the probe runs: correct its command",
    ),
    (
        re.compile(r"statuscode: 4\d\d"),
        "The program answers, but not to that request: correct the path of the probe, which has no credentials",
    ),
    (
        re.compile(r"statuscode: 5\d\d|service unhealthy"),
        "The program answers that it is not well: read its log (kubectl logs)",
    ),
    (
        re.compile(r"[Cc]lient\.Timeout|context deadline exceeded|DeadlineExceeded|timed? ?out|timeout"),
        "It answers too late: raise timeoutSeconds, or see what keeps it busy (kubectl logs)",
    ),
    (
        re.compile(r"no route to host|network is unreachable"),
        "The kubelet does not reach the pod: look at the network plugin of its node",
    ),
)
"""Words of an answer, and what they ask for; the first that fits counts."""
_ANY_REMEDY = "See what the probe asks (kubectl describe pod) and what the program prints (kubectl logs)"


class ProbeFailure(msgspec.Struct, frozen=True):
    """The reports of a probe that fails: which one, its newest answer and event, the count of all."""

    probe: str
    answer: str
    event: EventFacts
    times: int

    def sentence(self, evidence: Evidence, container: Container) -> str:
        """Return which probe of a container fails, what it asks, how often, and what the newest answer is."""
        spec = container.probes.get(self.probe)
        asks = f" ({spec.asks}, every {spec.period} s)" if spec is not None else ""
        is_cut = self.times >= _MOST_EVENTS
        often = f" {'at least ' if is_cut else ''}{counted(self.times, 'time')}" if self.times > 1 else ""
        is_dated = evidence.taken_at and self.event.last_seen_at and not is_cut
        last = f", last {duration(evidence.taken_at - self.event.last_seen_at)} ago" if is_dated else ""
        said = f": {self.answer}" if self.answer else ""
        return f"its {self.probe} probe{asks} failed{often}{last}{said}"

    @property
    def remedy(self) -> str:
        """The next step that its answer asks for."""
        return next((step for words, step in _REMEDIES if words.search(self.answer)), _ANY_REMEDY)


def failed_probe(evidence: Evidence, pod: Pod, *probes: str) -> ProbeFailure | None:
    """Return the failure of that of the pod's probes that failed last; `None` if none of them has failed."""
    told = [event for event in evidence.events if event.kind in ("", "Pod") and event.name == pod.name]
    found = [
        (event, match["probe"].lower(), match["answer"].strip())
        for event in sorted(told, key=lambda one: one.last_seen_at)
        if (match := _FAILED.search(event.message)) and match["probe"].lower() in probes
    ]
    if not found:
        return None
    last, probe, answer = found[-1]
    return ProbeFailure(probe, answer, last, sum(event.count for event, one, _ in found if one == probe))


def unready_by_probe(evidence: Evidence, pod: Pod, *, settling: float, patience: float) -> Finding | None:
    """Return the finding of a pod that runs and is not ready as a probe of it fails; `None` for any other.

    It is an information while the program may still load: it has never been ready nor been restarted.

    Args:
        evidence: Everything.
        pod: One that is not fine.
        settling: So many seconds after its start only a probe counts that has failed as often as it may.
        patience: So many seconds after its start the program may still load; with a startup probe without an end.
    """
    failed = failed_probe(evidence, pod, "readiness", "startup", "liveness")
    unready = [one for one in pod.containers if one.state.kind == "running" and not one.is_ready and not one.is_init]
    if failed is None or not unready:
        return None
    container = next((one for one in unready if failed.probe in one.probes), unready[0])
    spec, started = container.probes.get(failed.probe), container.state.since
    ready = pod.condition("Ready")
    was_ready = ready is not None and ready.since > started > 0
    age = evidence.now - max(started, ready.since if ready is not None else 0.0) if evidence.now and started else None
    is_early = failed.times < (spec.failures if spec is not None else _USUAL_FAILURES)
    if is_early and age is not None and age < settling:
        return None
    has_time = age is not None and (age < patience or failed.probe == "startup")
    is_loading = has_time and not was_ready and not container.restarts
    for_long = f" for {duration(age)}" if age is not None else ""
    return finding(
        Code.PROBE_FAILED,
        f"Container {container.name} of {pod.name} runs but is {'no longer' if was_ready else 'not'} ready{for_long}:"
        f" {failed.sentence(evidence, container)}",
        [failed.event.message, *([ready.message] if ready is not None else [])],
        f"{failed.remedy}." + (" It may still load: wait, or give it a longer startupProbe." if is_loading else ""),
        severity=Severity.INFO if is_loading else Severity.WARNING,
    )


def killed_by_probe(evidence: Evidence, pod: Pod, container: Container) -> Finding | None:
    """Return the finding of a container that the kubelet restarts because of a probe; `None` for any other.

    Also `None` for one that has run well again for an hour.
    """
    state = container.state
    if pod.is_fine and state.since and evidence.now - state.since > _PAST_SECONDS:
        return None
    kills = [
        (event, found["probe"])
        for event in evidence.events
        if event.name == pod.name
        and (found := _KILLED.search(event.message))
        and (found["container"] or container.name) == container.name
    ]
    failed = failed_probe(evidence, pod, *({probe for _, probe in kills} or ("liveness", "startup")))
    was_ended = container.last.exit_code in _ENDED_BY_KUBELET or state.exit_code in _ENDED_BY_KUBELET
    if not kills and not (failed and container.restarts and was_ended):
        return None
    failed = failed or ProbeFailure(kills[-1][1], "", kills[-1][0], kills[-1][0].count)
    restarts = f" ({counted(container.restarts, 'restart')} so far)" if container.restarts else ""
    verb = "ended" if pod.phase == "Failed" else "restarts"
    return finding(
        Code.PROBE_FAILED,
        f"The kubelet {verb} container {container.name} of {pod.name}{restarts}:"
        f" {failed.sentence(evidence, container)}",
        [failed.event.message, *(event.message for event, _ in kills[:1])],
        f"{failed.remedy}; see what it did until then (kubectl logs --previous). Give it more time (startupProbe,"
        " failureThreshold) if it was only busy.",
        severity=Severity.WARNING if pod.is_fine else None,
    )
