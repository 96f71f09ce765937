"""Changes that an operator asks for on one object: delete, scale, restart, suspend, cordon, drain.

Each is meant for one object, by its uid: another one that has taken its name since is left alone.

Source: kubectl 1.34: `pkg/polymorphichelpers/objectrestarter.go` (the annotation of a restart), `pkg/drain` (which pods
are left, refused or evicted; five seconds between two attempts at a pod that a disruption budget protects).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from actions.base.clock import Clock
from actions.base.errors import ConflictError, MissingError, RefusedError, UnreachableError
from actions.base.wording import counted, listed
from actions.cluster.auth.session import KubeSession, decode_document
from actions.cluster.http.errors import ApiError, ApiStatus
from actions.cluster.kinds import find_kind
from actions.cluster.objects.client import METADATA, ApiResource, Document, list_pages

RESTARTED = ("deployments.apps", "daemonsets.apps", "statefulsets.apps")
"""Kinds with a pod template whose change has all pods replaced."""
_RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
_MIRROR = "kubernetes.io/config.mirror"
_TOO_MANY_REQUESTS = 429
_BUDGET_CAUSE = "DisruptionBudget"
_ATTEMPTS = 5
_AGAIN_SECONDS = 5.0
_LOOK_SECONDS = 1.0
_NAMED = 4


class Target(msgspec.Struct, frozen=True):
    """One object that a change is meant for.

    Args:
        resource: Its kind.
        namespace: Empty for what is in none.
        name: Its name.
        uid: Its uid; empty until it is known.
    """

    resource: ApiResource
    namespace: str
    name: str
    uid: str = ""

    @property
    def path(self) -> str:
        """Its path below the server's address."""
        return self.resource.path(self.namespace, self.name)

    @property
    def qualified(self) -> str:
        """Its kind as kubectl names it: `pods`, `deployments.apps`."""
        group = self.resource.api_version.rpartition("/")[0]
        return f"{self.resource.plural}.{group}" if group else self.resource.plural

    def title(self) -> str:
        """As in sentences: `Deployment work/web`."""
        return f"{self.resource.kind} {self.namespace}/{self.name}" if self.namespace else self._alone()

    def _alone(self) -> str:
        return f"{self.resource.kind} {self.name}"


async def identify(session: KubeSession, target: Target) -> Target:
    """Return the target with the uid of the object that has its name now.

    Raises:
        MissingError: There is none.
        ConflictError: The target has a uid, and the object has another one.
    """
    body = await session.request("GET", target.path, accept=METADATA)
    uid = str(_metadata(decode_document(body, source=target.path)).get("uid") or "")
    if target.uid and uid != target.uid:
        raise ConflictError(f"{target.title()} is not the object that was chosen; that one is gone.")
    return msgspec.structs.replace(target, uid=uid)


async def delete_target(session: KubeSession, target: Target, *, propagation: str = "background") -> None:
    """Request the deletion of an object; it may stay for a while.

    Raises:
        MissingError: It is gone already.
        ConflictError: Another object has its name now.
    """
    options: Document = {
        "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation.capitalize(),
    }  # fmt: skip
    if target.uid:
        options["preconditions"] = {"uid": target.uid}
    await session.request("DELETE", target.path, body=msgspec.json.encode(options))


async def scale_target(session: KubeSession, target: Target, replicas: int) -> int:
    """Set the number of replicas; return the former one.

    Raises:
        RefusedError: The kind cannot be scaled.
        ConflictError: Another object has its name now, or it changes all the time.
    """
    path = f"{target.path}/scale"
    former = 0

    def change(scale: Document) -> Document:
        nonlocal former
        former = int((scale.get("spec") or {}).get("replicas") or 0)
        return {"spec": {"replicas": replicas}}

    try:
        await _change(session, target, path, change)
    except MissingError as error:
        await identify(session, target)
        raise RefusedError(f"{target.title()} cannot be scaled: it has no replicas of its own.") from error
    return former


async def restart_target(session: KubeSession, target: Target, *, clock: Clock) -> None:
    """Have all pods of a workload replaced, as `kubectl rollout restart` does.

    Raises:
        RefusedError: The kind has no roll-out, or it is paused.
        ConflictError: Another object has its name now, or it changes all the time.
    """
    if target.qualified not in RESTARTED:
        raise RefusedError(
            f"{target.title()} cannot be restarted.", hint="Deployments, DaemonSets and StatefulSets can; or delete it."
        )
    annotations = {_RESTARTED_AT: clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")}

    def change(workload: Document) -> Document:
        if (workload.get("spec") or {}).get("paused"):
            raise RefusedError(f"The roll-out of {target.title()} is paused.", hint="Resume it first.")
        return {"spec": {"template": {"metadata": {"annotations": annotations}}}}

    await _change(session, target, target.path, change)


async def suspend_target(session: KubeSession, target: Target, *, is_suspended: bool) -> bool:
    """Have the pods of a job ended and the job kept, or have it go on; return whether that is a change.

    Raises:
        RefusedError: Its kind has no suspension, or replicas, whose former number is not known.
        ConflictError: Another object has its name now, or it changes all the time.
    """
    group = target.resource.api_version.rpartition("/")[0]
    row = find_kind(target.resource.kind, group)
    if row is not None and row.suspending:
        await _command(session, target, row.suspending[0 if is_suspended else 1])
        return True
    if row is None or row.suspended_by in ("", _REPLICAS):
        hint = ":scale sets its replicas, also to 0." if row is not None and row.suspended_by else "Or delete it."
        raise RefusedError(f"{target.title()} cannot be suspended.", hint=hint)
    path = row.suspended_by.split(".")
    was_suspended = False

    def change(job: Document) -> Document | None:
        nonlocal was_suspended
        found: Any = job
        for name in path:
            found = (found or {}).get(name)
        was_suspended = bool(found)
        patch: Any = is_suspended
        for name in reversed(path):
            patch = {name: patch}
        return None if was_suspended is is_suspended else dict(patch)

    await _change(session, target, target.path, change)
    return was_suspended is not is_suspended


async def stop_target(session: KubeSession, target: Target) -> None:
    """Have the pods of a job ended and the job kept: suspended, or with no replicas. Raises as `suspend_target`."""
    row = find_kind(target.resource.kind, target.resource.api_version.rpartition("/")[0])
    if row is not None and row.suspended_by == _REPLICAS:
        await scale_target(session, target, 0)
    else:
        await suspend_target(session, target, is_suspended=True)


_REPLICAS = "spec.replicas"
VOLCANO_COMMANDS = ApiResource("bus.volcano.sh/v1alpha1", "Command", "commands", is_namespaced=True)


async def _command(session: KubeSession, target: Target, action: str) -> None:
    """Make the Command by which Volcano's `vcctl` acts on a job; its controller deletes it."""
    known = await identify(session, target)
    command = volcano_command(target.resource.api_version, target.resource.kind, target.name, known.uid, action)
    await session.request("POST", VOLCANO_COMMANDS.path(target.namespace), body=msgspec.json.encode(command))


def volcano_command(api_version: str, kind: str, name: str, uid: str, action: str) -> Document:
    """Return the Command that asks Volcano for an action on a job."""
    job = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}
    metadata = {"generateName": f"{name}-{action.lower()}-", "ownerReferences": [job]}
    command = {"apiVersion": VOLCANO_COMMANDS.api_version, "kind": VOLCANO_COMMANDS.kind, "metadata": metadata}
    return command | {"target": job, "action": action}


async def cordon_node(session: KubeSession, target: Target, *, is_cordoned: bool) -> bool:
    """Let no new pods onto a node, or let them again; return whether that is a change.

    Raises:
        RefusedError: The target is not a node.
        ConflictError: Another node has its name now, or it changes all the time.
    """
    if target.qualified != "nodes":
        raise RefusedError(f"{target.title()} is not a node.", hint="Put the cursor on a node.")
    was_cordoned = False

    def change(node: Document) -> Document | None:
        nonlocal was_cordoned
        was_cordoned = bool((node.get("spec") or {}).get("unschedulable"))
        return None if was_cordoned is is_cordoned else {"spec": {"unschedulable": True if is_cordoned else None}}

    await _change(session, target, target.path, change)
    return was_cordoned is not is_cordoned


async def _change(
    session: KubeSession, target: Target, path: str, change: Callable[[Document], Document | None]
) -> None:
    """Patch an object as it was read, so that it is the one that is meant; again if it has changed in between."""
    for attempt in range(_ATTEMPTS):
        found = await session.get(path)
        metadata = _metadata(found)
        if target.uid and metadata.get("uid") != target.uid:
            raise ConflictError(f"{target.title()} is not the object that was chosen; that one is gone.")
        patch = change(found)
        if patch is None:
            return
        body = msgspec.json.encode(patch | {"metadata": {"resourceVersion": metadata.get("resourceVersion")}})
        try:
            await session.request("PATCH", path, body=body, content_type="application/merge-patch+json")
        except ConflictError:
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return


class DrainPlan(msgspec.Struct, frozen=True):
    """The pods of a node, as a drain treats them.

    Args:
        evicted: Pods to be evicted, also those that have ended.
        daemons: Pods of DaemonSets and static pods, which stay.
        unmanaged: Pods that no controller makes again.
        with_data: Pods with an `emptyDir`, whose data is lost.
        protected: The server's sentences on budgets that allow no eviction now, each with the pods in question.
    """

    evicted: tuple[Target, ...]
    daemons: int
    unmanaged: tuple[str, ...]
    with_data: tuple[str, ...]
    protected: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def objections(self) -> tuple[str, ...]:
        """Return the reasons to ask once more before anything is evicted."""
        found = []
        if self.unmanaged:
            found.append(f"No controller makes {_some(self.unmanaged)} again.")
        if self.with_data:
            found.append(f"Data in emptyDir volumes is lost: {_some(self.with_data)}.")
        return tuple(found)

    def waits(self) -> tuple[str, ...]:
        """Return what the drain would wait for if it began now."""
        return tuple(
            f"Not evicted before their budget allows it: {_some(pods)}. {text}" for text, pods in self.protected
        )


_PODS = ApiResource("v1", "Pod", "pods", True)


async def plan_drain(session: KubeSession, node: str) -> DrainPlan:
    """Read the pods of a node, and sort them.

    Raises:
        ApiError: They may not be listed.
    """
    pods = await list_pages(session, "/api/v1/pods", {"fieldSelector": f"spec.nodeName={node}"})
    evicted: list[Target] = []
    unmanaged: list[str] = []
    with_data: list[str] = []
    daemons = 0
    for pod in pods:
        metadata = _metadata(pod)
        owner = _controller(metadata)
        target = Target(_PODS, str(metadata.get("namespace")), str(metadata.get("name")), str(metadata.get("uid")))
        if (metadata.get("annotations") or {}).get(_MIRROR) or owner == "DaemonSet":
            daemons += 1
            continue
        has_ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        evicted.append(target)
        if not owner and not has_ended:
            unmanaged.append(f"{target.namespace}/{target.name}")
        volumes = (pod.get("spec") or {}).get("volumes") or ()
        if not has_ended and any("emptyDir" in volume for volume in volumes):
            with_data.append(f"{target.namespace}/{target.name}")
    return DrainPlan(tuple(evicted), daemons, tuple(unmanaged), tuple(with_data))


async def with_protected(session: KubeSession, plan: DrainPlan) -> DrainPlan:
    """Return a plan with the pods that disruption budgets protect now, as the server answers evictions on trial.

    Raises:
        ApiError: Evictions are forbidden.
    """
    held = await _evict_once(session, plan.evicted, is_trial=True)
    by_reason: dict[str, list[str]] = {}
    for pod in plan.evicted:
        if pod.uid in held:
            by_reason.setdefault(held[pod.uid], []).append(f"{pod.namespace}/{pod.name}")
    return msgspec.structs.replace(plan, protected=tuple((text, tuple(pods)) for text, pods in by_reason.items()))


async def evict_all(
    session: KubeSession,
    pods: Sequence[Target],
    *,
    clock: Clock,
    deadline_seconds: float,
    progress: Callable[[int, str], None] = lambda *_: None,
) -> None:
    """Evict pods, and wait until they are gone; disruption budgets are respected, however long that takes.

    Args:
        session: The session.
        pods: By uid; one that is replaced meanwhile counts as gone.
        clock: For waits.
        deadline_seconds: Time for all of it.
        progress: Takes the number of pods that are left, and a sentence, whenever these have changed.

    Raises:
        UnreachableError: Pods are left at the deadline; the message names them and the budget that protects one.
        ApiError: An eviction is forbidden.
    """
    waiting = {pod.uid: pod for pod in pods}
    asked: set[str] = set()
    held: dict[str, str] = {}
    until = clock.monotonic() + deadline_seconds
    said = ""
    asked_at = float("-inf")
    while True:
        if clock.monotonic() - asked_at >= _AGAIN_SECONDS:
            asked_at = clock.monotonic()
            held = await _evict_once(session, [pod for uid, pod in waiting.items() if uid not in asked])
            asked.update(uid for uid in waiting if uid not in held)
        for uid, pod in list(waiting.items()):
            if uid in asked and await _is_gone(session, pod):
                del waiting[uid]
        if not waiting:
            return
        sentence = _progress(waiting, held)
        if sentence != said:
            said = sentence
            progress(len(waiting), sentence)
        if clock.monotonic() >= until:
            raise UnreachableError(sentence, hint="The node stays cordoned; drain it again, or look at the pods.")
        await clock.sleep(_LOOK_SECONDS)


async def _evict_once(session: KubeSession, pods: Sequence[Target], *, is_trial: bool = False) -> dict[str, str]:
    """Request evictions; return the reasons of those that a disruption budget does not allow now, by uid."""
    answers = await asyncio.gather(*(_evict(session, pod, is_trial=is_trial) for pod in pods))
    return {pod.uid: answer for pod, answer in zip(pods, answers, strict=True) if answer}


async def _evict(session: KubeSession, pod: Target, *, is_trial: bool) -> str:
    options: Document = {"preconditions": {"uid": pod.uid}}
    body: Document = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": options | ({"dryRun": ["All"]} if is_trial else {}),
    }
    query = {"dryRun": "All"} if is_trial else None
    try:
        await session.request("POST", f"{pod.path}/eviction", query=query, body=msgspec.json.encode(body))
    except (MissingError, ConflictError):
        pass  # it is gone, or another pod has its name
    except ApiError as error:
        if error.status.code != _TOO_MANY_REQUESTS:
            raise
        return _budget_words(error.status)
    return ""


def _budget_words(status: ApiStatus) -> str:
    """Return the sentence that names the budget; only the cause does."""
    found = next((cause.message for cause in status.causes if cause.reason == _BUDGET_CAUSE and cause.message), "")
    text = found or status.message
    return text if text.endswith(".") else f"{text}."


async def _is_gone(session: KubeSession, pod: Target) -> bool:
    try:
        await identify(session, pod)
    except (MissingError, ConflictError):
        return True
    return False


def _progress(waiting: Mapping[str, Target], held: Mapping[str, str]) -> str:
    names = [f"{pod.namespace}/{pod.name}" for pod in waiting.values()]
    reason = next((f" {text}" for uid, text in held.items() if uid in waiting), "")
    return f"{counted(len(names), 'pod')} left to evict: {_some(names)}.{reason}"


def _some(names: Sequence[str]) -> str:
    return listed(names, _NAMED)


def _controller(metadata: Mapping[str, Any]) -> str:
    """Return the kind of the controller of an object; empty if it has none."""
    owners = metadata.get("ownerReferences") or ()
    return next((str(owner.get("kind")) for owner in owners if owner.get("controller")), "")


def _metadata(document: Mapping[str, Any]) -> Mapping[str, Any]:
    found = document.get("metadata")
    return found if isinstance(found, Mapping) else {}
