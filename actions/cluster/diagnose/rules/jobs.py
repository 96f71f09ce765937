"""Rules for jobs that were stopped or failed, launchers that wait for their workers, ranks that hang."""

from __future__ import annotations

import re
from collections.abc import Iterator

from actions.cluster.diagnose.codes import Code, Finding, field_quote, finding
from actions.cluster.diagnose.evidence import Container, Evidence, GpuReading, KubeObject, Pod, is_refusal, job_failure
from actions.cluster.diagnose.log_patterns import find_hits, pattern
from actions.cluster.diagnose.rules.last_error import last_error

_DEADLINE = re.compile(
    r"DeadlineExceeded|longer than (?:the )?specified deadline|passed the activeDeadlineSeconds|activeDeadlineSeconds"
)
_MOST_LIMIT = re.compile(r"[Aa]ctiveDeadlineSeconds[:= (]{1,4}(\d+)")


def find_failed_jobs(evidence: Evidence) -> Iterator[Finding]:
    """Yield failures of jobs."""
    yield from _launcher(evidence)
    for job in sorted(evidence.jobs, key=lambda one: bool(one.owner[1])):  # the outermost object first
        yield from _job(evidence, job)
    yield from _refused_pods(evidence)
    yield from _refused_jobs(evidence)
    yield from _deadline_pods(evidence)
    yield from _hang(evidence)


def _job(evidence: Evidence, job: KubeObject) -> Iterator[Finding]:
    reason, message = job_failure(job)
    if not reason and not message:
        return
    name = f"{job.kind or 'Job'} {job.name}".strip()
    if _DEADLINE.search(f"{reason} {message}"):
        limit = job.spec.get("activeDeadlineSeconds") or next(
            (found[1] for found in [_MOST_LIMIT.search(message)] if found), None
        )
        yield finding(
            Code.JOB_DEADLINE,
            f"{name} was stopped by activeDeadlineSeconds" + (f" ({limit} s)" if limit else ""),
            [reason, message],
            "Raise activeDeadlineSeconds or leave it out; resume from the last checkpoint.",
        )
        return
    error = last_error(evidence)
    known = {pod.name for pod in evidence.pods}
    lost = [one for one in evidence.events if one.reason == "Preempted" and one.name not in known]
    if lost and not error:
        yield finding(
            Code.KILLED_SIGKILL,
            f"{name} has failed: the scheduler preempted its pod {lost[-1].name} for one of a higher priority",
            [lost[-1].message, lost[-1].reason, reason, message],
            "Resume from the last checkpoint; give it a PriorityClass that is as high, or a backoffLimit that allows"
            " for it.",
        )
        return
    yield finding(
        Code.JOB_FAILED,
        f"{name} has failed: {' '.join((error or message or reason).split())}",
        [reason, message, error],
        "Read the log of its first failed pod, of all ranks: the first error in time is the cause.",
    )


_REFUSED = re.compile(r"^(?:Error creating|Failed to create[^:\n]*): (?P<why>.+)", re.DOTALL)
_ALREADY = "already exists"


def _refused_pods(evidence: Evidence) -> Iterator[Finding]:
    """Yield an owner that may not make its pods, for any reason without a rule of its own."""
    whole = {
        (job.kind, job.name) for job in evidence.jobs if job.has("Available")
    }  # a LeaderWorkerSet that tried again
    refused = [
        event
        for event in evidence.troubles()
        if is_refusal(event) and _ALREADY not in event.message and (event.kind, event.name) not in whole
    ]
    for event in sorted(refused, key=lambda one: -one.last_seen_at)[:1]:
        why, step = _refusal_of(event.message)
        yield finding(
            Code.JOB_FAILED,
            f"{event.kind} {event.name} cannot make its pods: {why}",
            [event.message, event.reason],
            step,
        )


_SILENT_WEBHOOK = re.compile(r'failed calling webhook "([^"\n]{1,253})"')
_POD_SECURITY = re.compile(r'violates PodSecurity "([^"\n]{1,80})": (.+)', re.DOTALL)
_DETAILS = re.compile(r" \([^()]*(?:\([^()]*\)[^()]*)*\)")
_MOST_VIOLATIONS = 3


def _refusal_of(message: str) -> tuple[str, str]:
    """Return why the API server does not take a pod, and what to do about it."""
    if webhook := _SILENT_WEBHOOK.search(message):
        if "x509: " in message:
            return (
                f"the certificate of the admission webhook {webhook[1]} is not trusted",
                "Let its operator make the certificate and the caBundle of its configuration anew (install it again):"
                " kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations.",
            )
        return (
            f"the admission webhook {webhook[1]} does not answer",
            "Bring its service up; if its program is gone, delete its configuration:"
            " kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations.",
        )
    if violated := _POD_SECURITY.search(message):
        rules = _DETAILS.sub("", violated[2]).split(", ")
        more = f" and {len(rules) - _MOST_VIOLATIONS} more" if len(rules) > _MOST_VIOLATIONS else ""
        return (
            f"Pod Security {violated[1].partition(':')[0]} of the namespace forbids"
            f" {', '.join(rules[:_MOST_VIOLATIONS])}{more}",
            "Take these out of the pod template, or use a namespace whose label pod-security.kubernetes.io/enforce"
            " allows them.",
        )
    refusal = _REFUSED.search(message)
    return (
        refusal["why"] if refusal else message,
        "Correct the pod template, or ask the owner of the admission webhook or policy that refuses it.",
    )


_REFUSAL_OF_A_JOB = re.compile(r"FailedValidation|ValidationError|^Invalid\w*(?:Spec|Metadata)$")


def _refused_jobs(evidence: Evidence) -> Iterator[Finding]:
    """Yield a job that its operator refuses for its content."""
    idle = {(job.kind, job.name): job for job in evidence.jobs if not job.conditions and not job.status}
    for event in evidence.events:
        if (event.kind, event.name) in idle and _REFUSAL_OF_A_JOB.search(event.reason):
            yield finding(
                Code.JOB_FAILED,
                f"The operator refuses {event.kind} {event.name}: {event.message}",
                [event.message, event.reason],
                "Correct what it names, and apply the job again; nothing happens to it before that.",
            )
            return


def _deadline_pods(evidence: Evidence) -> Iterator[Finding]:
    """Yield a pod that its deadline has ended, unless a known job reports that."""
    if any(_DEADLINE.search(" ".join(job_failure(job))) for job in evidence.jobs):
        return
    quotes = [quote for pod in evidence.pods if pod.reason == "DeadlineExceeded" for quote in (pod.reason, pod.message)]
    events = [event for event in evidence.events if event.reason == "DeadlineExceeded"]
    quotes += [event.reason for event in events[:1]] + [event.message for event in events[:2]]
    if quotes:
        stopped = [pod.name for pod in evidence.pods if pod.reason == "DeadlineExceeded"]
        name = stopped[0] if stopped else events[0].name
        yield finding(
            Code.JOB_DEADLINE,
            f"{name or 'The job'} was stopped by activeDeadlineSeconds",
            quotes,
            "Raise activeDeadlineSeconds or leave it out; resume from the last checkpoint.",
        )


_ROLE_LABELS = ("training.kubeflow.org/job-role", "training.kubeflow.org/replica-type", "job-role", "mpi-job-role")
_UNREACHED = pattern(
    r"ssh: connect to host [^\n]{0,120}(?:refused|timed out|No route)",
    r"ssh: Could not resolve hostname",
    r"Could not resolve host",
    r"ORTE (?:was unable to reliably start|has lost communication)",
    r"unable to (?:launch|start) (?:one or more )?daemons",
    r"Connection refused[^\n]{0,40}port 22\b",
    r"kex_exchange_identification",
    r"daemon \(pid \d+\) (?:on node \S+ )?died unexpectedly",
    r"Host key verification failed",
    ignore_case=True,
)


_DENIED = re.compile(
    r"Permission denied \((?:publickey|password|keyboard-interactive)|orted: (?:No such file|command not found)"
)
"""Failures that do not pass: the workers' sshd runs but refuses the launcher's key, or has no daemon to start."""
_USUAL_RESTARTS = 3
_MOST_RESTARTS = 5
"""With back-offs, more than two minutes."""


def _launcher(evidence: Evidence) -> Iterator[Finding]:
    """Yield a launcher that fails while its workers do not run yet, which is usual: it is restarted."""
    for pod in evidence.pods:
        if not _is_role(pod, "launcher") or pod.is_fine:
            continue
        workers = [other for other in evidence.pods if _is_role(other, "worker")]
        missing = [worker for worker in workers if worker.phase not in ("Running", "Succeeded")]
        lines = [hit.line for hit in find_hits(((log.text, "") for log in evidence.logs_of(pod)), _UNREACHED)]
        failed = [one for one in pod.containers if _has_failed(one)]
        restarts = max((one.restarts for one in failed), default=0)
        is_early = restarts <= _USUAL_RESTARTS and not last_error(evidence, pod)
        if not failed or pod.phase == "Failed" or not (missing or lines or is_early):
            continue
        cannot_recover = restarts > _MOST_RESTARTS or any(_DENIED.search(log.text) for log in evidence.logs_of(pod))
        if not missing and cannot_recover:
            continue
        count = (
            f"{len(workers) - len(missing)} of {len(workers)} workers run" if workers else "its workers do not answer"
        )
        words = [one.state.reason or one.last.reason for one in failed]
        yield finding(
            Code.MPI_LAUNCHER_WAITING,
            f"{pod.name} restarts until its workers are up ({restarts} times so far, {count}): that is expected",
            [*words, *lines[:2], *(worker.name for worker in missing[:2])],
            f"Wait for the workers; ask why {missing[0].name} does not run if it lasts."
            if missing
            else "Wait a minute for the workers' sshd; worry only when the restarts near the back-off limit.",
        )


def _is_role(pod: Pod, role: str) -> bool:
    labelled = {pod.labels.get(name, "").lower() for name in _ROLE_LABELS} - {""}
    return role in labelled if labelled else re.search(rf"-{role}(?:-|$)", pod.name) is not None


def _has_failed(container: Container) -> bool:
    return (
        container.state.reason in ("CrashLoopBackOff", "Error")
        or any(ending.exit_code not in (0, None) for ending in container.endings)
    ) and all(ending.reason != "OOMKilled" for ending in container.endings)


_FULL_PERCENT = 95.0
_LOW_SHARE = 0.3
_SILENT_SECONDS = 300.0


def _hang(evidence: Evidence) -> Iterator[Finding]:
    """Yield a hanging collective: GPUs that are busy all the time with little power, and a log that has stopped."""
    spinning = [gpu for gpu in evidence.gpus if _spins(gpu)]
    if not spinning or evidence.last_log_age_s is None or evidence.last_log_age_s < _SILENT_SECONDS:
        return
    first = spinning[0]
    yield finding(
        Code.LIKELY_HANG,
        f"{len(spinning)} of {len(evidence.gpus)} GPUs are at {first.util_pct:.0f} % but take only"
        f" {first.power_w:.0f} W of {first.power_cap_w:.0f} W, and no log line came for"
        f" {evidence.last_log_age_s / 60:.0f} minutes: a collective is probably stuck",
        [
            field_quote("util_pct", _plain(first.util_pct)),
            field_quote("power_w", _plain(first.power_w)),
            field_quote("last_log_age_s", _plain(evidence.last_log_age_s)),
        ],
        "Find the rank whose log stops first (py-spy dump, NCCL flight recorder); restart from the last checkpoint.",
    )


def _spins(gpu: GpuReading) -> bool:
    if gpu.util_pct is None or gpu.power_w is None or not gpu.power_cap_w:
        return False
    return gpu.util_pct >= _FULL_PERCENT and gpu.power_w <= _LOW_SHARE * gpu.power_cap_w


def _plain(value: float | None) -> float | int | None:
    """Return a number in the input's form: a whole one without a fraction."""
    return int(value) if value is not None and value == int(value) else value
