"""The containers of a running pod: state, logs, starts, and the pod status that follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import msgspec

from actions.sandbox.clientkit.kinds import Document
from actions.sandbox.kubelet.log_file import LogFile
from actions.sandbox.kubelet.pod_config import ContainerConfig
from actions.sandbox.programs.program import GpuLoad, Load, ProcessContext


class ContainerRun(msgspec.Struct):
    """The state of a container, which its pod's task changes and which logs and exec read."""

    spec: ContainerConfig
    is_init: bool = False
    state: Document = msgspec.field(default_factory=lambda: {"waiting": {"reason": "PodInitializing"}})
    last_state: Document = msgspec.field(default_factory=dict)
    restarts: int = 0
    id: str = ""
    """The runtime's id of its newest instance; empty before there is one."""
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    """The values of Secrets and ConfigMaps at the time when it was made."""
    log: LogFile | None = None
    previous_log: LogFile | None = None
    load: Load = msgspec.field(default_factory=GpuLoad)
    gpus: tuple[int, ...] = ()
    neurons: tuple[int, ...] = ()
    context: ProcessContext | None = None
    """The process context of commands while it runs, `None` otherwise."""
    busy_seconds: float = 0.0
    """For how long its GPUs were busy under all loads before the present one."""
    load_since: float = 0.0
    """Seconds since the epoch: begin of the present load; 0 while it has no process context."""

    @property
    def is_running(self) -> bool:
        """True while its process runs."""
        return "running" in self.state

    @property
    def is_ready(self) -> bool:
        """True while it runs and its probes succeed; a liveness probe alone holds nothing back."""
        probe = self.spec.failing_probe
        return self.is_running and (probe is None or probe.kind == "liveness")

    @property
    def exit_code(self) -> int | None:
        """The code with which it last ended, `None` if it has not."""
        ended = self.state.get("terminated")
        return int(ended["exitCode"]) if ended else None

    def set_load(self, load: Load) -> None:
        """Take the accelerators' load from its program."""
        if self.context is not None:
            now = self.context.now()
            self.busy_seconds, self.load_since = self.busy_at(now), now
        self.load = load

    def busy_at(self, now: float) -> float:
        """Return for how long its GPUs have been busy; a second at half load is half a second."""
        if not isinstance(self.load, GpuLoad) or not self.load_since:
            return self.busy_seconds
        return self.busy_seconds + self.load.utilisation_percent / 100 * max(0.0, now - self.load_since)

    def begin(self, log: LogFile, now: str, *, instance: str) -> None:
        """Begin an instance with an empty log; the log before is kept as the previous."""
        if self.log is not None:
            self.previous_log = self.log
        self.log = log
        self.id = instance
        self.state = {"running": {"startedAt": now}}

    def end(self, exit_code: int, now: str) -> None:
        """Note that its process has ended."""
        started = (self.state.get("running") or {}).get("startedAt", now)
        reason = "Completed" if exit_code == 0 else "Error"
        self.context = None
        ended = {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": now}
        if self.log is not None:
            self.log.close()
            if self.spec.reports_log and exit_code:
                ended["message"] = self.log.last_words().decode(errors="replace")
        self.state = {"terminated": ended | {"containerID": self.id}}

    def await_restart(self, *, reason: str, message: str) -> None:
        """Set the state of a container that waits to be started again."""
        self.last_state, self.state = self.state, {"waiting": {"reason": reason, "message": message}}
        self.restarts += 1

    def status(self) -> Document:
        """Return its entry in the pod's status."""
        probe = self.spec.failing_probe
        return {
            "name": self.spec.name,
            "image": self.spec.image,
            "imageID": _image_id(self.spec.image) if self.id else "",
            **({"containerID": self.id} if self.id else {}),
            "state": self.state,
            "lastState": self.last_state,
            "ready": self.is_ready or (self.is_init and self.exit_code == 0),
            "started": self.is_running and (self.is_ready or probe is None or probe.kind != "startup"),
            "restartCount": self.restarts,
        }


def _image_id(image: str) -> str:
    """Return the image by its digest, as containerd does; the digest is made up, and the same for the same image."""
    repository, _, digest = image.partition("@")
    if digest:
        return image
    name, colon, tag = repository.rpartition(":")
    named = name if colon and "/" not in tag else repository
    return f"{named}@sha256:{sha256(image.encode()).hexdigest()}"


def pod_status(
    phase: str,
    init_containers: Sequence[ContainerRun],
    containers: Sequence[ContainerRun],
    *,
    address: str,
    host: str,
    started_at: str,
) -> Document:
    """The whole status, its conditions without times.

    Args:
        phase: Pending, Running, Succeeded or Failed.
        init_containers: Of the pod, in order.
        containers: Of the pod, in order.
        address: The pod's IPv4 address, empty before it has one.
        host: The node's IPv4 address.
        started_at: When the kubelet took the pod.
    """
    is_over = phase in ("Succeeded", "Failed")
    is_ready = not is_over and bool(containers) and all(container.is_ready for container in containers)
    is_initialised = is_over or all(container.exit_code == 0 for container in init_containers)
    reason = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "" if is_ready else "ContainersNotReady")
    wanted = {
        "PodReadyToStartContainers": (bool(address) and not is_over, ""),
        "Initialized": (is_initialised, "PodCompleted" if phase == "Succeeded" else ""),
        "Ready": (is_ready, reason),
        "ContainersReady": (is_ready, reason),
        "PodScheduled": (True, ""),
    }
    unready = [container.spec.name for container in containers if not container.is_ready]
    status: Document = {
        "phase": phase,
        "conditions": [_condition(name, *value, unready) for name, value in wanted.items()],
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "startTime": started_at,
        "containerStatuses": [container.status() for container in containers],
    }
    if address:
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    if init_containers:
        status["initContainerStatuses"] = [container.status() for container in init_containers]
    return status


def note_transitions(status: Document, now: str, transitions: dict[str, tuple[str, str]]) -> None:
    """Give the conditions of a status the time at which they last changed.

    Args:
        status: Changed in place.
        now: Kubernetes' timestamp.
        transitions: Condition → its last status and since when; hand in the same one each time.
    """
    for condition in status["conditions"]:
        known = transitions.get(condition["type"])
        if known is None or known[0] != condition["status"]:
            transitions[condition["type"]] = (condition["status"], now)
        condition["lastTransitionTime"] = transitions[condition["type"]][1]


def _condition(name: str, is_true: bool, reason: str, unready: Sequence[str]) -> Document:
    condition: Document = {"type": name, "status": "True" if is_true else "False", "lastProbeTime": None}
    if reason:
        condition["reason"] = reason
    if name in ("Ready", "ContainersReady") and not is_true and reason == "ContainersNotReady":
        condition["message"] = f"containers with unready status: [{' '.join(unready)}]"
    return condition
