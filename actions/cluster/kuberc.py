"""The policy for exec plugins in the operator's kuberc, in the words of KEP-3104.

Source: kubernetes/enhancements KEP-3104; kubectl `pkg/kuberc/kuberc.go` (`LoadKuberc`, `DefaultGetPreferences`) and the
type `Preference` of `kubectl.config.k8s.io/v1beta1`. An entry of the allow-list is a `name` in Kubernetes 1.35, a
`command` since 1.36.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from actions.base.errors import ConfigError
from actions.base.files import read_bounded

_MAX_BYTES = 1 << 20
_GROUP = "kubectl.config.k8s.io/"
_OFF = "off"


class PluginPolicy(StrEnum):
    """`credentialPluginPolicy`. Where a kuberc says nothing, we ask; kubectl allows all."""

    UNSAID = ""
    ALLOW_ALL = "AllowAll"
    DENY_ALL = "DenyAll"
    ALLOWLIST = "Allowlist"


class Preference(msgspec.Struct, frozen=True):
    """Of a kuberc: which exec plugins may be started. `file` is empty where there is none."""

    file: str = ""
    policy: PluginPolicy = PluginPolicy.UNSAID
    allowed: tuple[str, ...] = ()
    """Full paths, or names that are looked up in `PATH`."""


def load_preference(environment: Mapping[str, str] | None = None) -> Preference:
    """Read the file that `$KUBERC` names, or `~/.kube/kuberc`. Blocking disk I/O.

    As with kubectl, what is wrong with the second counts as if it were not there: we ask then.

    Raises:
        ConfigError: `$KUBERC` names a file that cannot be used, or one of them contradicts itself.
    """
    variables = os.environ if environment is None else environment
    named = variables.get("KUBERC", "")
    if named == _OFF:
        return Preference()
    path = Path(named).expanduser() if named else Path(variables.get("HOME", "~")).expanduser() / ".kube" / "kuberc"
    try:
        document = _document(path)
    except (OSError, ValueError, RecursionError) as error:
        if not named:
            return Preference()
        raise ConfigError(f"$KUBERC names {path}, which cannot be read.", hint="Correct it, or unset it.") from error
    return _read(path, document)


def _document(path: Path) -> Mapping[str, Any]:
    """The first preferences in the file.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no YAML, or there are none.
    """
    import yaml

    data = read_bounded(path, _MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ValueError("too long")
    try:
        documents = list(yaml.safe_load_all(data.decode("utf-8")))
    except yaml.YAMLError as error:
        raise ValueError("no YAML") from error
    for document in documents:
        is_preference = isinstance(document, dict) and document.get("kind") == "Preference"
        if is_preference and str(document.get("apiVersion", "")).startswith(_GROUP):
            found: Mapping[str, Any] = document
            return found
    raise ValueError("no preferences")


def _read(path: Path, document: Mapping[str, Any]) -> Preference:
    hint = "See `kubectl kuberc --help`."
    said = document.get("credentialPluginPolicy") or ""
    try:
        policy = PluginPolicy(said)
    except ValueError as error:
        known = ", ".join(one.value for one in PluginPolicy if one.value)
        raise ConfigError(f"{path}: {said!r} is no credentialPluginPolicy.", hint=f"Write {known}.") from error
    entries = document.get("credentialPluginAllowlist")
    if policy is not PluginPolicy.ALLOWLIST and entries is not None:
        raise ConfigError(
            f"{path}: there is a credentialPluginAllowlist, but credentialPluginPolicy is not Allowlist.", hint=hint
        )
    allowed = tuple(_name_of(entry) for entry in entries) if isinstance(entries, list) else ()
    if policy is PluginPolicy.ALLOWLIST and not all(allowed or ("",)):
        raise ConfigError(f"{path}: credentialPluginAllowlist has no entries, or one without a name.", hint=hint)
    return Preference(str(path), policy, allowed)


def _name_of(entry: object) -> str:
    named = entry if isinstance(entry, dict) else {}
    return str(named.get("command") or named.get("name") or "")
