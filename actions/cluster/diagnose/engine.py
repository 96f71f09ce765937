"""The engine of a diagnosis: it applies every rule, then leaves out symptoms that a cause explains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from actions.cluster.diagnose.codes import EXPLAINS, LAST_RESORTS, RANK, Code, Finding, Severity, finding
from actions.cluster.diagnose.evidence import Evidence
from actions.cluster.diagnose.rules.accelerators import find_neuron_faults, find_nvidia_faults
from actions.cluster.diagnose.rules.fabric import find_network_faults
from actions.cluster.diagnose.rules.images import find_image_faults
from actions.cluster.diagnose.rules.jobs import find_failed_jobs
from actions.cluster.diagnose.rules.memory import find_memory_faults
from actions.cluster.diagnose.rules.namespaces import find_namespace_faults
from actions.cluster.diagnose.rules.nodes import find_node_faults
from actions.cluster.diagnose.rules.programs import (
    find_damaged_checkpoints,
    find_diverged_training,
    find_failed_programs,
)
from actions.cluster.diagnose.rules.provisioning import find_pool_limits, find_refused_capacity
from actions.cluster.diagnose.rules.queues import find_queued
from actions.cluster.diagnose.rules.scheduling import find_unschedulable
from actions.cluster.diagnose.rules.storage import find_storage_faults
from actions.cluster.diagnose.rules.unexplained import find_unexplained, find_unknown
from actions.cluster.diagnose.select import drop_resolved_node_events, scopes_of

_RULES: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    find_nvidia_faults,
    find_neuron_faults,
    find_node_faults,
    find_refused_capacity,
    find_namespace_faults,
    find_queued,
    find_storage_faults,
    find_unschedulable,
    find_pool_limits,
    find_image_faults,
    find_memory_faults,
    find_network_faults,
    find_failed_jobs,
    find_failed_programs,
    find_damaged_checkpoints,
    find_diverged_training,
)


def diagnose(evidence: Evidence) -> list[Finding]:
    """Return the findings of one fault, causes before their symptoms; none for evidence without a fault.

    All of the evidence is taken to belong together; see `diagnose_each` for a whole cluster.
    """
    if evidence.has_succeeded:
        return []
    return _named(evidence) or _ordered(find_unexplained(evidence))


def _named(evidence: Evidence) -> list[Finding]:
    """Return the findings of the rules that know what they look for.

    While all of them are informations, a pod that runs and is not ready is looked at once more.
    """
    found = _ordered(one for rule in _RULES for one in rule(evidence))
    if not found or any(one.severity is not Severity.INFO for one in found):
        return found
    told = " ".join(one.headline for one in found)
    others = tuple(pod for pod in evidence.pods if pod.phase == "Running" and pod.name not in told)
    alone = find_unexplained(replace(evidence, pods=others)) if others else ()
    return [*(one for one in _ordered(alone) if one.severity is not Severity.INFO), *found]


def diagnose_each(evidence: Evidence) -> list[Finding]:
    """Return the findings of every workload, each diagnosed by itself: errors first, causes before symptoms."""
    found = [
        one
        for scope in scopes_of(drop_resolved_node_events(evidence))
        for one in (diagnose(scope) if scope.pods or scope.jobs or not evidence.pods else _named(scope))
    ]
    once: dict[tuple[Code, str], Finding] = {}
    for one in found:
        once.setdefault((one.code, one.headline), one)
    return sorted(once.values(), key=lambda one: (_URGENCY[one.severity], RANK[one.code]))


def answer(evidence: Evidence, *, is_one: bool) -> list[Finding]:
    """Return the findings on one fault, or on each workload; without any, what forbids to say that nothing is wrong."""
    if is_one:
        found = diagnose(evidence)
    else:
        # lines of a text that may be any pod's output belong to no workload
        names = {pod.name for pod in evidence.pods}
        loose = Evidence(logs=tuple(log for log in evidence.logs if log.pod not in names) if evidence.paste else ())
        found = [*diagnose_each(evidence), *diagnose(loose)]
    return found if evidence.has_succeeded else found or _ordered(find_unknown(evidence))


_URGENCY = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


def _ordered(found: Iterable[Finding]) -> list[Finding]:
    known = list({(one.code, one.headline): one for one in found}.values())
    codes = {one.code for one in known}
    needless: set[Code] = set().union(*(EXPLAINS.get(code, frozenset()) for code in codes)) - _mutual(codes)
    if any(one.code not in LAST_RESORTS and one.severity is Severity.ERROR for one in known):
        needless |= LAST_RESORTS
    kept = [one for one in known if one.code not in needless]
    return sorted(map(_merged, _by_code(_one_last_resort(kept))), key=lambda one: RANK[one.code])


def _by_code(found: Iterable[Finding]) -> Iterable[list[Finding]]:
    """Group findings by code: those of one code are the same for several objects."""
    groups: dict[Code, list[Finding]] = {}
    for one in found:
        groups.setdefault(one.code, []).append(one)
    return groups.values()


def _merged(alike: list[Finding]) -> Finding:
    """Return one finding for all of them: the first one's text, the evidence of all."""
    if len(alike) == 1:
        return alike[0]
    first = max(alike, key=lambda one: one.severity is Severity.ERROR)
    quotes = [quote for position in range(8) for one in alike for quote in one.evidence[position : position + 1]]
    others = sum(one.next_step == first.next_step for one in alike) - 1
    headline = f"{first.headline} (and {others} more like it)" if others else first.headline
    return finding(first.code, headline, quotes, first.next_step, severity=first.severity)


def _mutual(codes: set[Code]) -> set[Code]:
    """Return the codes that stay although another explains them: of two that explain each other, the deeper rank."""
    return {
        code
        for code in codes
        for other in EXPLAINS.get(code, frozenset()) & codes
        if code in EXPLAINS.get(other, frozenset()) and RANK[code] < RANK[other]
    }


def _one_last_resort(found: list[Finding]) -> list[Finding]:
    """Drop findings of fallback codes, except those of the first one in rank."""
    fallbacks = sorted({one.code for one in found} & LAST_RESORTS, key=lambda code: RANK[code])
    return [one for one in found if one.code not in fallbacks[1:]]
