"""The images that this program itself brings into a cluster, and the registry that serves them.

They are on Amazon's public registry. A site whose nodes cannot reach that names another one with the same paths, such
as a pull-through cache in its own ECR: `111122223333.dkr.ecr.us-west-2.amazonaws.com/ecr-public`.

Source: Amazon ECR user guide, *Sync an upstream registry*: an image keeps its path behind the prefix of the rule.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from actions.base.errors import ConfigError

REGISTRY_VARIABLE = "EKSML_IMAGE_REGISTRY"
PUBLIC_REGISTRY = "public.ecr.aws"

AWS_CLI = "aws-cli/aws-cli:2.22.35"
BUSYBOX = "docker/library/busybox:1.36"
PYTHON = "docker/library/python:3.12-alpine"
"""Docker's own image of Python, as Amazon serves it without a login to pods anywhere."""

_REGISTRY = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,253}[a-z0-9])?(?::[0-9]{1,5})?(?:/[a-z0-9]+(?:[._-][a-z0-9]+)*){0,8}")


def own_image(path: str, environment: Mapping[str, str] | None = None) -> str:
    """Return the reference of one of these images.

    Args:
        path: Of the image, with its tag.
        environment: With the name of the registry, if another one serves it; this process' by default.

    Raises:
        ConfigError: That is not a registry.
    """
    given = (os.environ if environment is None else environment).get(REGISTRY_VARIABLE, "").rstrip("/")
    if given and not _REGISTRY.fullmatch(given):
        raise ConfigError(
            f"{REGISTRY_VARIABLE} is not a registry: {given!r}.",
            hint="Write HOST or HOST/PREFIX, without https://.",
        )
    return f"{given or PUBLIC_REGISTRY}/{path}"


def registry_variable(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variable that names another registry, if it is set."""
    return {REGISTRY_VARIABLE: environment[REGISTRY_VARIABLE]} if environment.get(REGISTRY_VARIABLE) else {}
