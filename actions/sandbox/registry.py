"""Which images the sandbox's registries have: all of them, but those whose tag begins with `missing`."""

from __future__ import annotations

_MISSING = "missing"


def is_there(tag: str) -> bool:
    """Whether a repository has this tag."""
    return not tag.startswith(_MISSING)


def refusal_of(image: str) -> str:
    """Why an image cannot be pulled, in containerd's words; empty if it can.

    Source: containerd 1.7 `remotes/docker/resolver.go`, as kubelet 1.32 passes it on.
    """
    name, _, digest = image.partition("@")
    tag = name.rpartition(":")[2]
    if digest or "/" in tag or is_there(tag):
        return ""
    return (
        f'rpc error: code = NotFound desc = failed to pull and unpack image "{image}": failed to resolve reference '
        f'"{image}": {image}: not found'
    )
