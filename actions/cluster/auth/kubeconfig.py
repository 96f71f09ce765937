"""Kubeconfig files, read and merged as kubectl does, and the context chosen from them."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from actions.base.decoding import convert
from actions.base.errors import ConfigError, UsageError
from actions.base.files import expanded, read_file
from actions.base.names import is_label
from actions.base.proxies import is_web_address
from actions.base.untrusted import one_line


class Impersonation(msgspec.Struct, frozen=True, omit_defaults=True):
    """The user to act as; with an empty `user` none. Encodes to the fields of a kubeconfig's user entry."""

    user: str = msgspec.field(default="", name="as")
    uid: str = msgspec.field(default="", name="as-uid")
    groups: tuple[str, ...] = msgspec.field(default=(), name="as-groups")
    extra: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict, name="as-user-extra")

    def headers(self) -> tuple[tuple[str, str], ...]:
        """Return the headers for every request; a name may occur several times."""
        several = [("Group", group) for group in self.groups]
        several += [
            (f"Extra-{quote(key.lower(), safe='')}", one) for key, values in self.extra.items() for one in values
        ]
        single = [(name, value) for name, value in (("User", self.user), ("Uid", self.uid)) if value]
        return tuple((f"Impersonate-{name}", value) for name, value in (*single, *several))


def read_impersonation(user: Mapping[str, Any], *, where: str) -> Impersonation:
    """Read the impersonation in a kubeconfig's user entry.

    Args:
        user: The entry.
        where: The file and the user's name, for messages.

    Raises:
        ConfigError: It is not valid, or cannot be sent.
    """
    given = {key: value for key, value in user.items() if str(key).startswith("as") and value}
    try:
        read = convert(given, Impersonation, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: the impersonation is not valid: {error}.") from error
    headers = read.headers()
    if headers and not read.user:
        raise ConfigError(f"{where}: as-uid, as-groups and as-user-extra need `as`.")
    if not all(value.isascii() and value.isprintable() for _, value in headers):
        raise ConfigError(f"{where}: the user to act as is not printable ASCII.")
    return read


_IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


_IN_CLUSTER_NAME = "in-cluster"
_MAX_BYTES = 8 << 20
_AUTHORITY_DATA = "certificate-authority-data"
_CLUSTER_INFO = ("server", "tls-server-name", "insecure-skip-tls-verify", _AUTHORITY_DATA, "proxy-url")
PLUGIN_EXTENSION = "client.authentication.k8s.io/exec"
"""The extension of a cluster entry that exec plugins receive as `config`."""


class NoKubeconfigError(ConfigError):
    """No kubeconfig was given, and there is none in the usual places."""


class ClusterTarget(msgspec.Struct, frozen=True):
    """The choice of a cluster.

    `kubeconfig` `None` means the usual rules: `$KUBECONFIG`, `~/.kube/config`, then the pod's own service account.
    An empty `context` means the file's current one, an empty `namespace` the context's.
    """

    kubeconfig: Path | None = None
    context: str = ""
    namespace: str = ""


class ExecPlugin(msgspec.Struct, frozen=True):
    """A `user.exec` entry: a program that prints an ExecCredential."""

    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    api_version: str
    install_hint: str
    cluster_info: bytes = b""
    """The cluster as JSON, if the plugin asks for it (`provideClusterInfo`); else empty."""


class ChosenContext(msgspec.Struct, frozen=True):
    """One context, with the contents of its cluster and user entries.

    Paths are absolute. `*_data` fields are base64 as in the file. Empty means not given.
    """

    file: str
    context: str
    cluster: str
    server: str
    namespace: str = ""
    ca_file: str = ""
    ca_data: str = ""
    is_insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    certificate_file: str = ""
    certificate_data: str = ""
    key_file: str = ""
    key_data: str = ""
    token: str = ""
    token_file: str = ""
    username: str = ""
    password: str = ""
    plugin: ExecPlugin | None = None
    user: str = ""
    user_file: str = ""
    """The file with the user's entry, which may be another than the context's."""
    impersonation: Impersonation = Impersonation()


class _ExecVariable(msgspec.Struct):
    name: str
    value: str | None = None


class _ExecBlock(msgspec.Struct, rename="camel"):
    command: str
    args: list[str] | None = None
    env: list[_ExecVariable] | None = None
    api_version: str = "client.authentication.k8s.io/v1"
    install_hint: str | None = None
    provide_cluster_info: bool | None = None


class ContextParts(msgspec.Struct, frozen=True):
    """Cluster, region and account, as far as a context's name contains them."""

    cluster: str
    region: str = ""
    account: str = ""


def parse_context_name(context: str) -> ContextParts:
    """Split an EKS ARN; any other name is the cluster's name."""
    words = context.split(":")
    if len(words) == 6 and words[0] == "arn" and words[2] == "eks":
        return ContextParts(words[5].removeprefix("cluster/"), words[3], words[4])
    return ContextParts(context)


def whole_context(typed: str, names: Iterable[str]) -> str:
    """Return the context that is shown under a short name; a name of none, or of several, as it is."""
    names = list(names)
    found = [name for name in names if parse_context_name(name).cluster == typed] if typed not in names else []
    return found[0] if len(found) == 1 else typed


def short_contexts(names: Iterable[str]) -> list[str]:
    """Return the names under which contexts are shown: that of the cluster where only one has it."""
    names = list(names)
    short = [parse_context_name(name).cluster for name in names]
    return [one if short.count(one) == 1 else name for one, name in zip(short, names, strict=True)]


def load_context(target: ClusterTarget, environment: Mapping[str, str] | None = None) -> ChosenContext:
    """Find, read and merge the kubeconfig files and choose the target's context.

    Blocking disk I/O; no network.

    Raises:
        NoKubeconfigError: There is none.
        ConfigError: An unreadable file, or a context, cluster or user that is not in them.
    """
    variables = os.environ if environment is None else environment
    paths = _files(target, variables)
    if not paths:
        return _in_cluster(target, variables)
    merged = _Merged()
    for path in paths:
        merged.add(path, _document(path))
    return merged.choose(target)


def contexts_of(target: ClusterTarget, environment: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """List name and cluster of every context in the target's kubeconfig files, by name.

    Raises:
        NoKubeconfigError: There is none.
        ConfigError: A file cannot be read.
    """
    paths = _files(target, os.environ if environment is None else environment)
    if not paths:
        raise NoKubeconfigError("There is no kubeconfig: neither $KUBECONFIG nor ~/.kube/config.")
    merged = _Merged()
    for path in paths:
        merged.add(path, _document(path))
    return merged.contexts()


def _files(target: ClusterTarget, variables: Mapping[str, str]) -> list[Path]:
    if target.kubeconfig is not None:
        return [expanded(target.kubeconfig)]
    listed = [expanded(part) for part in variables.get("KUBECONFIG", "").split(os.pathsep) if part]
    present = [path for path in listed if _has_content(path)]
    if listed and not present:
        raise ConfigError(
            f"$KUBECONFIG names {listed[0]}, which does not exist or is empty.",
            hint="Correct it, or give --kubeconfig.",
        )
    usual = expanded(variables.get("HOME", "~")) / ".kube" / "config"
    return present or ([usual] if _has_content(usual) else [])


def _has_content(path: Path) -> bool:
    """Return whether the file exists and is not empty: kubectl skips both."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _in_cluster(target: ClusterTarget, variables: Mapping[str, str]) -> ChosenContext:
    host, port = variables.get("KUBERNETES_SERVICE_HOST", ""), variables.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (_IN_CLUSTER / "token").exists():
        if target.context not in ("", _IN_CLUSTER_NAME):
            raise ConfigError(
                f"There is no kubeconfig that could have the context {target.context!r}.", hint="Give --kubeconfig."
            )
        raise NoKubeconfigError(
            "There is no kubeconfig: neither $KUBECONFIG nor ~/.kube/config.",
            hint="Give --kubeconfig, run `aws eks update-kubeconfig --name CLUSTER`, or try --demo.",
        )
    own = _IN_CLUSTER / "namespace"
    namespace = read_file(own).decode().strip() if own.exists() else ""
    return ChosenContext(
        file=str(_IN_CLUSTER),
        context=_IN_CLUSTER_NAME,
        cluster=_IN_CLUSTER_NAME,
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        namespace=target.namespace or namespace,
        ca_file=str(_IN_CLUSTER / "ca.crt"),
        token_file=str(_IN_CLUSTER / "token"),
    )


def _document(path: Path) -> dict[str, Any]:
    import yaml  # a tenth of what the console imports until its first frame, which needs none

    from actions.base.yamldoc import load_foreign

    try:
        text = read_file(path, _MAX_BYTES, may_be_pipe=True).decode("utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"The kubeconfig {path} does not exist.", hint="Correct --kubeconfig.") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"The kubeconfig {path} cannot be read: {reason}.", hint="Correct --kubeconfig.") from error
    # the parser's message quotes the file, which holds secrets: it is not passed on, not even to a traceback
    try:
        documents = load_foreign(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise ConfigError(f"{path}:{line}: the kubeconfig is not YAML: {one_line(error.problem or '')}.") from None
    except yaml.YAMLError:
        raise ConfigError(
            f"The kubeconfig {path} is not YAML, or nested too deeply.", hint="Correct --kubeconfig."
        ) from None
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ConfigError(f"The kubeconfig {path} holds no clusters.", hint="Correct --kubeconfig.")
    return documents[0]


class _Merged:
    """Several kubeconfigs as one: the first file that names a thing wins."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, tuple[Path, dict[str, Any]]]] = {"context": {}, "cluster": {}, "user": {}}
        self._current = ""
        self._first: Path | None = None

    def add(self, path: Path, document: Mapping[str, Any]) -> None:
        self._first = self._first or path
        self._current = self._current or _text(document, "current-context")
        for kind, known in self._entries.items():
            entries = document.get(f"{kind}s") or ()
            if not isinstance(entries, list | tuple):
                raise ConfigError(f"{path}: `{kind}s` is not a list.")
            for entry in entries:
                if not isinstance(entry, dict) or not isinstance(entry.get(kind), dict | None):
                    raise ConfigError(f"{path}: an entry of `{kind}s` has no name or no `{kind}`.")
                known.setdefault(_text(entry, "name"), (path, entry.get(kind) or {}))

    def contexts(self) -> list[tuple[str, str]]:
        """List name and cluster of each context, by name."""
        entries = self._entries["context"].items()
        return sorted((name, _text(context, "cluster")) for name, (_, context) in entries)

    def choose(self, target: ClusterTarget) -> ChosenContext:
        name = target.context or self._current
        if not name:
            raise ConfigError(f"{self._first} has no current context.", hint=f"Give --context: {self._names()}.")
        path, context = self._find("context", name, hint=f"Known: {self._names()}.")
        cluster_name, user_name = _text(context, "cluster"), _text(context, "user")
        cluster_path, cluster = self._cluster(cluster_name, context=name)
        user_path, user = self._user(user_name, context=name) if user_name else (path, {})
        authority = _path(cluster, "certificate-authority", cluster_path)
        return ChosenContext(
            file=str(path),
            context=name,
            cluster=cluster_name,
            server=_server_of(cluster),
            namespace=_namespace(target.namespace or _text(context, "namespace"), path, name),
            ca_file=authority,
            ca_data=_text(cluster, _AUTHORITY_DATA),
            is_insecure=bool(cluster.get("insecure-skip-tls-verify")),
            tls_server_name=_text(cluster, "tls-server-name"),
            proxy_url=_text(cluster, "proxy-url"),
            certificate_file=_path(user, "client-certificate", user_path),
            certificate_data=_text(user, "client-certificate-data"),
            key_file=_path(user, "client-key", user_path),
            key_data=_text(user, "client-key-data"),
            token=_text(user, "token"),
            token_file=_path(user, "tokenFile", user_path),
            username=_text(user, "username"),
            password=_text(user, "password"),
            user=user_name,
            user_file=str(user_path),
            plugin=_plugin(user, user_path, user_name, cluster=cluster, authority=authority),
            impersonation=read_impersonation(user, where=f"{user_path}: the user {user_name}"),
        )

    def _cluster(self, name: str, *, context: str) -> tuple[Path, dict[str, Any]]:
        """Return the file and entry of a context's cluster.

        Raises:
            ConfigError: There is none, or its address or proxy cannot be used.
            UsageError: Its address holds a user name or a password.
        """
        path, cluster = self._find("cluster", name, hint=f"The context {context} names it.")
        proxy = _text(cluster, "proxy-url")
        server = _server_of(cluster)
        if not is_web_address(server) or not _is_plain(server):
            raise ConfigError(
                f"{path}: the cluster {name} has no usable server address.", hint="Write https://HOST:PORT."
            )
        if "@" in urlsplit(server).netloc:  # the address is named in messages and journals
            raise UsageError(
                f"{path}: the server address of the cluster {name} holds a user name or a password.",
                hint="Put them into the user's entry: username and password, or a token.",
            )
        if proxy and not is_web_address(proxy):
            raise ConfigError(f"{path}: the proxy-url of {name} cannot be used.", hint="Use an http or https proxy.")
        return path, cluster

    def _user(self, name: str, *, context: str) -> tuple[Path, dict[str, Any]]:
        """Return the file and entry of a context's user.

        Raises:
            ConfigError: There is none, or it uses an auth-provider.
        """
        path, user = self._find("user", name, hint=f"The context {context} names it.")
        if "auth-provider" in user:
            raise ConfigError(
                f"{path}: the user {name} uses an auth-provider, which Kubernetes has removed.",
                hint="Use an exec plugin instead.",
            )
        return path, user

    def _find(self, kind: str, name: str, *, hint: str) -> tuple[Path, dict[str, Any]]:
        found = self._entries[kind].get(name)
        if found is None:
            raise ConfigError(f"{self._first} has no {kind} {name!r}.", hint=hint)
        return found

    def _names(self) -> str:
        return ", ".join(sorted(self._entries["context"])) or "none"


def _is_plain(server: str) -> bool:
    """Return whether an address can stand in a request as it is, without a query."""
    return server.isascii() and server.isprintable() and not set(' ?#"\\') & {*server}


def _namespace(name: str, path: Path, context: str) -> str:
    if name and not is_label(name):
        raise UsageError(
            f"{path}: {name[:60]!r} is not a valid namespace (context {context}).",
            hint="Correct --namespace, or the context's namespace.",
        )
    return name


def _server_of(cluster: Mapping[str, Any]) -> str:
    return _text(cluster, "server").rstrip("/")


def _text(entry: Mapping[str, Any], key: str) -> str:
    """Return a single value as text; anything else counts as not given, for which the caller raises."""
    value = entry.get(key)
    return str(value) if isinstance(value, str | int | float) and value else ""


def _path(entry: Mapping[str, Any], key: str, file: Path) -> str:
    value = _text(entry, key)
    return str(file.absolute().parent / value) if value else ""


def _plugin(
    user: Mapping[str, Any], file: Path, name: str, *, cluster: Mapping[str, Any], authority: str
) -> ExecPlugin | None:
    block = user.get("exec")
    if not block:
        return None
    try:
        read = convert(block, _ExecBlock, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{file}: the exec plugin of the user {name} is not valid: {error}.") from error
    command = str(file.absolute().parent / read.command) if "/" in read.command else read.command
    return ExecPlugin(
        argv=(command, *(read.args or ())),
        environment=tuple((pair.name, pair.value or "") for pair in read.env or ()),
        api_version=read.api_version,
        install_hint=one_line(read.install_hint or ""),
        cluster_info=_cluster_info(cluster, authority) if read.provide_cluster_info else b"",
    )


def _cluster_info(cluster: Mapping[str, Any], authority: str) -> bytes:
    """Return `spec.cluster` of an ExecCredential: the cluster, and the kubeconfig's extension for plugins."""
    info = {key: cluster[key] for key in _CLUSTER_INFO if cluster.get(key)}
    if authority and _AUTHORITY_DATA not in info:
        with suppress(OSError):  # a missing file is reported when the TLS settings are made
            info[_AUTHORITY_DATA] = base64.b64encode(read_file(Path(authority), _MAX_BYTES)).decode()
    extensions = cluster.get("extensions")
    for entry in extensions if isinstance(extensions, list) else ():
        if isinstance(entry, dict) and entry.get("name") == PLUGIN_EXTENSION:
            info["config"] = entry.get("extension")
    return msgspec.json.encode(info)
