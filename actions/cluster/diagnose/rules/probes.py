"""Rules for probes: containers that the kubelet restarts or keeps from traffic because they do not answer.

Source: kubelet `prober` and `kuberuntime` (v1.2x–1.34): *Readiness probe failed: …*, *Container … failed liveness
probe, will be restarted*.
"""

from __future__ import annotations

import re

from actions.base.wording import counted
from actions.cluster.diagnose.codes import Code, Finding, Severity, finding
from actions.cluster.diagnose.evidence import Container, Evidence, Pod
from actions.fleet.facts import EventFacts

_FAILED = re.compile(
    r"\b(?P<probe>Readiness|Liveness|Startup) probe (?:failed|errored)\b[^:\n]{0,80}:? ?(?P<answer>.*)"
)
_KILLED = re.compile(r"(?:Container (?P<container>\S+) )?failed (?P<probe>liveness|startup) probe")
_ENDED_BY_KUBELET = frozenset({0, 137, 143})
_PAST_SECONDS = 3600.0


def failed_probe(evidence: Evidence, pod: Pod, *probes: str) -> tuple[str, EventFacts] | None:
    """Return what the newest failure of one of the pod's probes says, with its event; `None` if none has failed."""
    told = [event for event in evidence.events if event.kind in ("", "Pod") and event.name == pod.name]
    for event in sorted(told, key=lambda one: -one.last_seen_at):
        found = _FAILED.search(event.message)
        if found and found["probe"].lower() in probes:
            return found["answer"].strip(), event
    return None


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
    failed = failed_probe(evidence, pod, "liveness", "startup")
    was_ended = container.last.exit_code in _ENDED_BY_KUBELET or state.exit_code in _ENDED_BY_KUBELET
    if not kills and not (failed and container.restarts and was_ended):
        return None
    probe = kills[-1][1] if kills else "liveness"
    restarts = f" ({counted(container.restarts, 'restart')} so far)" if container.restarts else ""
    said = f": {failed[0]}" if failed and failed[0] else ""
    verb, fails = ("ended", "failed") if pod.phase == "Failed" else ("restarts", "fails")
    return finding(
        Code.KILLED_SIGKILL,
        f"The kubelet {verb} container {container.name} of {pod.name}{restarts}: its {probe} probe {fails}{said}",
        [*([failed[1].message] if failed else []), *(event.message for event, _ in kills[:1])],
        f"See what the probe asks (kubectl describe pod {pod.name}) and what the program did until then (kubectl logs"
        " --previous); give it more time (startupProbe, timeoutSeconds, failureThreshold) if it was only busy.",
        severity=Severity.WARNING if pod.is_fine else None,
    )
