"""Rules for images that are not pulled: no such tag, no right, wrong architecture, no room, or simply large.

Source: kubelet and containerd 1.6–2.0 messages; Docker Hub, ECR and nvcr.io answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from actions.cluster.diagnose.codes import Code, Finding, finding
from actions.cluster.diagnose.evidence import Evidence, Pod
from actions.cluster.diagnose.patterns import pattern

_PULL_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}
)
_FORMAT = pattern(r"exec format error")
_NO_PLATFORM = pattern(
    r"no match for platform",
    r"no matching manifest for",
    r"does not match the (?:specified|detected) (?:host )?platform",
    r"cannot be used on this platform",
    r"no image found in [\w ]{1,20} for architecture",
)
_NO_DISK = pattern(r"no space left on device", ignore_case=True)
_NO_RIGHT = pattern(
    r"\b40[13]\b(?: Unauthorized| Forbidden)?",
    r"unauthori[sz]ed",
    r"forbidden",
    r"access denied",
    r"authentication required",
    r"authorization (?:failed|token)",
    r"no basic auth credentials",
    r"is not authorized to perform",
    r"toomanyrequests|pull rate limit",
    r"\bdenied: ",
    ignore_case=True,
)
_NOT_THERE = pattern(
    r"manifest unknown",
    r"name unknown",
    r"does not exist",
    r": not found",
    r"\bnot found\b",
    r"invalid reference format",
    r"InvalidImageName",
    r"[Cc]ouldn't parse image",
    r"is not present with pull policy of Never",
    ignore_case=True,
)
_NO_ANSWER = pattern(
    r"no such host",
    r"i/o timeout",
    r"handshake timeout",
    r"connection (?:refused|reset)",
    r"context deadline exceeded",
    r"no route to host",
    r"x509: ",
    r"\b50[0-4] [A-Z]",
    r"unexpected EOF",
    r"server misbehaving",
    r"server gave HTTP response to HTTPS client",
    ignore_case=True,
)
_ANY = pattern(r"ErrImagePull|ImagePullBackOff|RegistryUnavailable")
_IMAGE = re.compile(r'(?:image|reference|package|unpack image) "([^"]+)"')
_URL = re.compile(r"https?://\S+")
_SANDBOX = "FailedCreatePodSandBox"

_VERDICTS = (
    (
        Code.IMAGE_ARCH,
        _NO_PLATFORM,
        "The image {image} has no build for this node's CPU architecture",
        "Build it for linux/amd64 (docker buildx --platform), or use a node of the image's architecture.",
    ),
    (
        Code.NODE_DISK_FULL,
        _NO_DISK,
        "The node ran out of disk while it unpacked the image {image}",
        "Raise the node's volume size (blockDeviceMappings of the EC2NodeClass, or the launch template).",
    ),
    (
        Code.IMAGE_AUTH,
        _NO_RIGHT,
        "No right to pull the image {image}",
        "Check imagePullSecrets (nvcr.io: user $oauthtoken, password the NGC key) or the node role's ECR permissions.",
    ),
    (
        Code.IMAGE_NOT_FOUND,
        _NOT_THERE,
        "There is no such image: {image}",
        "Correct the repository, tag or registry; check that the image has been pushed to this account and region.",
    ),
    (
        Code.IMAGE_NOT_FOUND,
        _NO_ANSWER,
        "The registry of the image {image} cannot be reached from the node",
        "Check the registry's name, the node's DNS and routes (NAT gateway, VPC endpoints), and its certificate.",
    ),
    (
        Code.IMAGE_PULLING,
        re.compile(r"pull QPS exceeded"),
        "The node pulls many images at once; that of {image} has to wait",
        "Wait: the kubelet tries again by itself.",
    ),
    (
        Code.IMAGE_NOT_FOUND,
        _ANY,
        "The image {image} cannot be pulled, and the reason is not reported",
        "kubectl describe pod shows what the registry answered: no such tag, no right, or no answer.",
    ),
)
"""In the order in which they are tried: the last matches any failed pull."""


def find_image_faults(evidence: Evidence) -> Iterator[Finding]:
    """Yield the reasons for missing images."""
    yield from _formats(evidence)
    messages = list(_pull_messages(evidence))
    for code, expression, headline, next_step in _VERDICTS:
        # a failed pull is reported several times, in parts: the first entry that fits a pod counts
        matched = [
            (pod, message) for pod, message in messages if expression.search(_without_names(evidence, pod, message))
        ]
        if matched:
            messages = [(pod, message) for pod, message in messages if pod not in {name for name, _ in matched}]
            sentence = headline.format(image=_image_of(evidence, matched)).rstrip(": ")
            yield finding(code, sentence, [message for _, message in matched[:3]], next_step)
    yield from _pulling(evidence)


def _without_names(evidence: Evidence, pod: str, message: str) -> str:
    """Return a message without addresses and names of images: a tag may well be called 403."""
    names = {found[1] for found in _IMAGE.finditer(message)}
    names |= {one.image for known in evidence.pods if known.name == pod for one in known.containers if ":" in one.image}
    for name in sorted(names, key=len, reverse=True):
        message = message.replace(name, "")
    return _URL.sub("", message)


def _image_of(evidence: Evidence, messages: list[tuple[str, str]]) -> str:
    """Return the image that the messages name, or else the pod's."""
    named = next((found[1] for _, message in messages if (found := _IMAGE.search(message))), "")
    asked = (one.image for pod in evidence.pods if pod.name == messages[0][0] for one in pod.containers)
    return named or next((image for image in asked if image), "")


def _formats(evidence: Evidence) -> Iterator[Finding]:
    """Yield programs of another architecture, which is known only when they start."""
    sources = [log.text for log in evidence.logs]
    for pod in evidence.pods:
        for container in pod.containers:
            sources += [state.message for state in (container.state, container.last)]
    sources += [event.message for event in evidence.troubles()]
    lines = [line for text in sources for line in text.splitlines() if _FORMAT.search(line)]
    if lines:
        yield finding(
            Code.IMAGE_ARCH,
            "The image was built for another CPU architecture",
            lines[:3],
            "Rebuild it for linux/amd64 (was it built on an Apple silicon machine?), or use a node that fits it.",
        )


def _pull_messages(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yield pod and message of failed pulls."""
    for pod in evidence.pods:
        for container in pod.containers:
            state = container.state
            if state.kind == "waiting" and state.reason in _PULL_REASONS:
                yield pod.name, f"{state.message}\n{state.reason}"
    for event in evidence.troubles():
        is_pull = "pull" in event.message.lower() or event.reason in _PULL_REASONS
        is_of_sandbox = event.reason == _SANDBOX and "failed to pull image" in event.message
        if (event.reason in ("Failed", "InspectFailed", *_PULL_REASONS) and is_pull) or is_of_sandbox:
            puller = evidence.pod(event.namespace, event.name)
            if puller is None or _is_waiting(puller):
                yield event.name, event.message


def _is_waiting(pod: Pod) -> bool:
    """Return whether any of its containers has not started, or may not have."""
    return not pod.containers or any(container.state.kind in ("waiting", "") for container in pod.containers)


_PULL_ENDED = ("Pulled", "Failed", "Created", "Started", "BackOff")


def _pulling(evidence: Evidence) -> Iterator[Finding]:
    """Yield a pull that has not ended."""
    for event in evidence.troubles():
        pod = evidence.pod(event.namespace, event.name)
        if event.reason != "Pulling" or (pod is not None and not _is_waiting(pod)):
            continue
        later = [
            other for other in evidence.events if other.name == event.name and other.last_seen_at >= event.last_seen_at
        ]
        if any(other.reason in _PULL_ENDED for other in later) or _has_failed(pod):
            continue
        found = _IMAGE.search(event.message)
        yield finding(
            Code.IMAGE_PULLING,
            f"{event.name or 'The pod'} downloads its image{f' {found[1]}' if found else ''}: nothing is wrong yet",
            [event.message],
            "Wait: images of 10 to 30 GB take several minutes on a new node.",
        )
        return


def _has_failed(pod: Pod | None) -> bool:
    return pod is not None and any(one.state.reason in _PULL_REASONS for one in pod.containers)
