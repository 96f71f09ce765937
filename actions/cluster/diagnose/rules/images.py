"""Rules for images that are not pulled: no such tag, no right, wrong architecture, no room, or simply large.

Source: kubelet and containerd 1.6–2.0 messages; Docker Hub, ECR and nvcr.io answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from actions.cluster.diagnose.codes import Code, Finding, finding
from actions.cluster.diagnose.evidence import Evidence, Pod
from actions.cluster.diagnose.log_patterns import THROTTLED, pattern

PULL_REASONS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
"""Reasons with which a container waits for its image."""
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
    r"access (?:to the resource is )?denied",
    r"authentication required",
    r"authorization (?:failed|token)",
    r"no basic auth credentials",
    r"is not authorized to perform",
    r"\bdenied: ",
    r"may require (?:authorization|'docker login')",
    ignore_case=True,
)
_BAD_NAME = pattern(r"InvalidImageName", r"invalid reference format", r"[Cc]ouldn't parse image", ignore_case=True)
_NOT_THERE = pattern(
    r"manifest unknown", r"name unknown", r"does not exist", r": not found", r"\bnot found\b", ignore_case=True
)
_NO_NAME = pattern(r"\blookup \S{1,253}(?: on \S{1,60})?: ", r"no such host", r"name resolution", ignore_case=True)
"""Go's resolver; what stands behind it is the answer of the name server, or that there was none."""
_WRONG_TIME = pattern(r"x509: certificate has expired or is not yet valid: current time \S{1,40} is before")
_NO_TRUST = pattern(r"x509: ", ignore_case=True)
_NO_ANSWER = pattern(
    r"i/o timeout",
    r"handshake timeout",
    r"connection (?:refused|reset)",
    r"context deadline exceeded",
    r"no route to host",
    r"network is unreachable",
    r"\bEOF\b",
    ignore_case=True,
)
_ANY = pattern(r"ErrImagePull|ImagePullBackOff|RegistryUnavailable")
_IMAGE = re.compile(r'(?:image|image tag|image name|reference|package) "([^"]+)"')
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
        "The node ran out of disk while it pulled the image {image}",
        "Raise the node's volume size (blockDeviceMappings of the EC2NodeClass, or the launch template).",
    ),
    (
        Code.IMAGE_PULLING,
        re.compile(r"pull QPS exceeded"),
        "The node pulls many images at once; that of {image} has to wait",
        "Wait: the kubelet tries again by itself.",
    ),
    (
        Code.REGISTRY_RATE_LIMIT,
        THROTTLED,
        "The registry limits how often the image {image} may be pulled",
        "Wait: the kubelet tries again by itself. Sign in (imagePullSecrets), or pull through a cache in ECR, for"
        " a higher limit.",
    ),
    (
        Code.IMAGE_NAME_INVALID,
        _BAD_NAME,
        "The name of the image is not valid: {image}",
        "Correct it in the pod template: registry/repository:tag in lower case, without https://, blanks or"
        " variables that were left empty.",
    ),
    (
        Code.REGISTRY_UNAVAILABLE,
        _NO_NAME,
        "The node cannot resolve the name of the registry of the image {image}",
        "Correct the registry's name; if it is right, check the node's DNS and its way there (VPC endpoints,"
        " resolver).",
    ),
    (Code.IMAGE_AUTH, _NO_RIGHT, "No right to pull the image {image}", ""),
    (
        Code.IMAGE_NOT_FOUND,
        _NOT_THERE,
        "There is no such image: {image}",
        "Correct the repository, tag or registry; check that the image has been pushed to this account and region.",
    ),
    (
        Code.IMAGE_NOT_FOUND,
        re.compile(r"is not present with pull policy of Never"),
        "The node has no image {image}, and the pod forbids to pull it",
        "Set imagePullPolicy to IfNotPresent, or load the image on the nodes.",
    ),
    (
        Code.REGISTRY_UNAVAILABLE,
        _WRONG_TIME,
        "The clock of the node is behind: to it the registry of the image {image} has a certificate of the future",
        "Set the node's clock (chronyc tracking on it shows how far it is off; the Amazon Time Sync Service is at"
        " 169.254.169.123), or replace the node.",
    ),
    (
        Code.REGISTRY_UNAVAILABLE,
        pattern(r"server gave HTTP response to HTTPS client", ignore_case=True),
        "The registry of the image {image} answers without TLS, and the node asks with it",
        "Give the registry a certificate, or name it as a plain one on the nodes (containerd's hosts.toml).",
    ),
    (
        Code.REGISTRY_UNAVAILABLE,
        _NO_TRUST,
        "The registry of the image {image} cannot be reached from the node: it has no certificate that the node trusts",
        "Install the registry's certificate authority on the nodes, or have them use a registry with a public one.",
    ),
    (
        Code.REGISTRY_UNAVAILABLE,
        _NO_ANSWER,
        "The registry of the image {image} cannot be reached from the node",
        "Check the node's routes to it: NAT gateway, VPC endpoints, security groups, proxy.",
    ),
    (
        Code.REGISTRY_UNAVAILABLE,
        re.compile(r"\b50[0-4] [A-Z]"),
        "The registry of the image {image} fails itself",
        "Wait: the kubelet tries again by itself; see whether the registry has a disruption.",
    ),
    (
        Code.IMAGE_AUTH,
        pattern(r"SignatureValidationFailed"),
        "The node takes no image without a signature that its policy knows: {image}",
        "Sign the image with a key that the policy of the node names, or have the policy take it.",
    ),
    (
        Code.IMAGE_NOT_FOUND,
        pattern(r"unexpected commit (?:digest|size)", r"failed commit on ref"),
        "What the registry sends of the image {image} is not what its digest names",
        "Pull again; if it stays, a proxy or mirror on the way changes it, or it was not pushed whole: push it again.",
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
            sentence = " ".join(headline.format(image=_image_of(evidence, matched)).split()).rstrip(": ")
            step = next_step or _way_in(sentence)
            yield finding(code, sentence, [message for _, message in matched[:3]], step)
    yield from _pulling(evidence)


def _way_in(image: str) -> str:
    """Return how a node gets the right to pull from the registry of an image."""
    if ".dkr.ecr." in image:
        return (
            "Give the node's role the right to pull from ECR; a repository of another account needs a policy of"
            " its own, and the name its region."
        )
    if "nvcr.io" in image:
        return "Put the NGC key into imagePullSecrets of the pod's namespace (user $oauthtoken, password the key)."
    return (
        "Check imagePullSecrets in the pod's namespace, and the name: registries answer so for what is not there, too."
    )


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
    asked = [one for pod in evidence.pods if pod.name == messages[0][0] for one in pod.containers if one.image]
    asked.sort(key=lambda one: one.state.reason not in PULL_REASONS)
    return named or (asked[0].image if asked else "")


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
            if state.kind == "waiting" and state.reason in PULL_REASONS:
                yield pod.name, f"{state.message}\n{state.reason}"
    for event in evidence.troubles():
        is_pull = "pull" in event.message.lower() or event.reason in PULL_REASONS
        is_of_sandbox = event.reason == _SANDBOX and "failed to pull image" in event.message
        if (event.reason in ("Failed", "InspectFailed", *PULL_REASONS) and is_pull) or is_of_sandbox:
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
    return pod is not None and any(one.state.reason in PULL_REASONS for one in pod.containers)
