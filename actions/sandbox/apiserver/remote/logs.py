"""The log of a container: `GET …/pods/NAME/log`.

Source: k8s.io/kubernetes `pkg/registry/core/pod/strategy.go` (`LogLocation`) for what is refused and how.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from aiohttp import web

from actions.base.clock import Clock, parse_rfc3339
from actions.sandbox.apiserver.requests.context import ServerContext
from actions.sandbox.apiserver.requests.request_info import RequestTarget
from actions.sandbox.apiserver.storage.codec import Object, dig
from actions.sandbox.apiserver.storage.errors import bad_request
from actions.sandbox.apiserver.storage.store import Stored
from actions.sandbox.model.kubelet_api import ContainerLogRef, PodLogOptions

_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


def container_of(pod: Stored, asked: str) -> str:
    """Return the name of the container that a request means.

    Raises:
        StatusError: 400, there is none of that name, or several and none was named.
    """
    spec = pod.body["spec"]
    own = [one["name"] for one in spec["containers"]]
    inits = [one["name"] for one in spec.get("initContainers") or ()]
    if asked:
        if asked not in (*own, *inits):
            raise bad_request(f"container {asked} is not valid for pod {pod.name}")
        return asked
    preferred = dig(pod.body, "metadata", "annotations", _DEFAULT_CONTAINER)
    if preferred in own:
        return str(preferred)
    if len(own) == 1:
        return str(own[0])
    choices = f"choose one of: [{' '.join(own)}]"
    if inits:
        choices += f" or one of the init containers: [{' '.join(inits)}]"
    raise bad_request(f"a container name must be specified for pod {pod.name}, {choices}")


async def serve_log(context: ServerContext, request: web.Request, target: RequestTarget) -> web.StreamResponse:
    """Stream a log as plain text, flushed as it grows."""
    pod = context.writer.find(target.resource, target.namespace, target.name)
    container = container_of(pod, request.query.get("container", ""))
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    chunks = open_log(context, pod, container, request.query)
    await response.prepare(request)
    async for chunk in context.faults.wrap_stream(request, chunks):
        await response.write(chunk)
    await response.write_eof()
    return response


def open_log(context: ServerContext, pod: Stored, container: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
    """Open the log that a query selects.

    Raises:
        StatusError: 400, there is none, or the query cannot be read.
    """
    if not dig(pod.body, "spec", "nodeName"):
        return _nothing()
    source = ContainerLogRef(pod.namespace, pod.name, pod.uid, container, previous=_is_set(query, "previous"))
    wanted = PodLogOptions(
        follow=_is_set(query, "follow"),
        since_ns=_since_ns(query, context.clock),
        tail_lines=_number(query, "tailLines"),
        limit_bytes=_number(query, "limitBytes"),
        timestamps=_is_set(query, "timestamps"),
    )
    try:
        return context.kubelet.log_chunks(source, wanted)
    except KeyError as error:
        if source.previous:
            why = f'previous terminated container "{container}" in pod "{pod.name}" not found'
        else:
            reason = _waiting_for(pod.body, container)
            why = f'container "{container}" in pod "{pod.name}" is waiting to start: {reason}'
        raise bad_request(why) from error


async def _nothing() -> AsyncIterator[bytes]:
    """Yield the log of a pod without a node: empty, as the real server answers."""
    nothing: tuple[bytes, ...] = ()
    for chunk in nothing:
        yield chunk


def _waiting_for(pod: Object, container: str) -> str:
    for field in ("containerStatuses", "initContainerStatuses"):
        for one in dig(pod, "status", field) or ():
            if one.get("name") == container and (reason := dig(one, "state", "waiting", "reason")):
                return str(reason)
    return "ContainerCreating"


def _is_set(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "false") not in ("false", "0")


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not text.isdigit():
        raise bad_request(f"{name}: Invalid value: {text!r}: must be greater than or equal to 0")
    return int(text)


def _since_ns(query: Mapping[str, str], clock: Clock) -> int | None:
    seconds = _number(query, "sinceSeconds")
    if seconds is not None:
        return int((clock.now().timestamp() - seconds) * 1e9)
    text = query.get("sinceTime")
    if not text:
        return None
    try:
        whole = parse_rfc3339(text).replace(microsecond=0)
    except ValueError as error:
        raise bad_request(f"sinceTime: Invalid value: {text!r}: is not an RFC 3339 time") from error
    fraction = text.partition(".")[2]
    digits = fraction[: next((i for i, c in enumerate(fraction) if not c.isdigit()), len(fraction))]
    return int(whole.timestamp()) * 1_000_000_000 + int(f"{digits[:9]:0<9}")
