"""The permission to start the exec plugins of a kubeconfig, which are programs that a file names.

In this order: the policy of the operator's kuberc (`credentialPluginPolicy`); names that were given with
`--allow-plugin`; the token commands of AWS; what the operator has confirmed before. Everything else has to be
confirmed, once for each program, its content, arguments and environment.

Source: kubernetes/enhancements KEP-3104; kubectl `pkg/kuberc/kuberc.go` (`LoadKuberc`, `DefaultGetPreferences`) and the
type `Preference` of `kubectl.config.k8s.io/v1beta1`. An entry of the allow-list is a `name` in Kubernetes 1.35, a
`command` since 1.36.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import ConfigError
from actions.base.files import expanded, open_file, private_directory, read_file, state_folder, write_private
from actions.base.untrusted import one_line, redact
from actions.cluster.auth.kubeconfig import ChosenContext, ClusterTarget, ExecPlugin, NoKubeconfigError, load_context

_MAX_BYTES = 1 << 20
_GROUP = "kubectl.config.k8s.io/"
_OFF = "off"
_PASSED_BY_ARGUMENT = {"AWS_PROFILE": "--profile", "AWS_REGION": "--region", "AWS_DEFAULT_REGION": "--region"}
_WITHOUT_EFFECT = frozenset({"AWS_STS_REGIONAL_ENDPOINTS"})


class PluginPolicy(StrEnum):
    """`credentialPluginPolicy`. Without one, the operator has to confirm; kubectl allows all."""

    UNSAID = ""
    ALLOW_ALL = "AllowAll"
    DENY_ALL = "DenyAll"
    ALLOWLIST = "Allowlist"


class Preference(msgspec.Struct, frozen=True):
    """A kuberc's settings for exec plugins. `file` is empty if there is no kuberc."""

    file: str = ""
    policy: PluginPolicy = PluginPolicy.UNSAID
    allowed: tuple[str, ...] = ()
    """Full paths, or names that are searched for in `PATH`."""


def load_preference() -> Preference:
    """Read the file that `$KUBERC` names, or `~/.kube/kuberc`. Blocking disk I/O.

    As with kubectl, a `~/.kube/kuberc` that cannot be used counts as absent.

    Raises:
        ConfigError: `$KUBERC` names a file that cannot be used, or one of them contradicts itself.
    """
    named = os.environ.get("KUBERC", "")
    if named == _OFF:
        return Preference()
    path = expanded(named) if named else expanded(os.environ.get("HOME", "~")) / ".kube" / "kuberc"
    try:
        document = _document(path)
    except (OSError, ValueError, RecursionError) as error:
        if not named:
            return Preference()
        raise ConfigError(f"$KUBERC names {path}, which cannot be read.", hint="Correct it, or unset it.") from error
    return _read(path, document)


def _document(path: Path) -> Mapping[str, Any]:
    """Read the first preferences in the file.

    Raises:
        OSError: It cannot be read.
        ValueError: It is not YAML, or there are none.
    """
    import yaml

    from actions.base.yamldoc import load_foreign

    data = read_file(path, _MAX_BYTES)
    try:
        documents = load_foreign(data.decode("utf-8"))
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
    written = document.get("credentialPluginPolicy") or ""
    try:
        policy = PluginPolicy(written)
    except ValueError as error:
        known = ", ".join(one.value for one in PluginPolicy if one.value)
        raise ConfigError(f"{path}: {written!r} is not a credentialPluginPolicy.", hint=f"Write {known}.") from error
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


ALLOW_VARIABLE = "EKSML_ALLOW_PLUGINS"
"""Names or full paths, separated like `PATH`; a run keeps what it was launched with."""
CONFIRMED = "credential-plugins.json"
_AWS_COMMANDS = {"aws": ("eks", "get-token"), "aws-iam-authenticator": ("token",)}
_HARMLESS = frozenset(
    {"AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_STS_REGIONAL_ENDPOINTS"}
)
"""Other variables, such as `AWS_CONFIG_FILE` or `LD_PRELOAD`, can make the command start something else."""
_LONGEST_ARGUMENT = 200

Replaces = Callable[[Sequence[str]], object]
"""Returns `None` for an argument list that has no replacement in this process, and would be started."""


class PluginRefusedError(ConfigError):
    """An exec plugin may not be started. The program ends with exit code 2."""


class PluginUnconfirmedError(PluginRefusedError):
    """An exec plugin that may be started only if the operator confirms it.

    Args:
        request: The program to confirm.
    """

    def __init__(self, request: PluginRequest) -> None:
        super().__init__(
            f"The kubeconfig {request.file} would start {request.program}, which has not been allowed.",
            hint=f"Start eksml-tui on a terminal to confirm it, give --allow-plugin {request.name},"
            f" set {ALLOW_VARIABLE}, or list it in ~/.kube/kuberc.",
        )
        self.request = request


class PluginRequest(msgspec.Struct, frozen=True):
    """The request of a kubeconfig to start a program."""

    file: str
    """The kubeconfig."""
    context: str
    name: str
    """The program as the kubeconfig writes it."""
    program: str
    """Its full path."""
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]

    def lines(self) -> list[str]:
        """Return the text of the question, with credentials replaced."""
        shown = [f"{name}={value}" for name, value in self.environment]
        parts = (one_line(redact(word), limit=_LONGEST_ARGUMENT) for word in (*shown, self.program, *self.arguments))
        return [f"{self.file}, context {self.context}, would start:", "", *(f"  {word}" for word in parts)]

    def fingerprint(self) -> str:
        """Return a hash of program, arguments and variables: a confirmation holds for these alone.

        Raises:
            OSError: The program cannot be read.
        """
        with open_file(self.program) as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        parts = [os.path.realpath(self.program), content, self.arguments, self.environment]
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def allowed_command(chosen: ChosenContext, plugin: ExecPlugin, *, is_vouched_for: bool = False) -> tuple[str, ...]:
    """Return the argument list of a plugin that may be started, its program by its full path. Blocking disk I/O.

    The program is searched for in our own `PATH`, whatever the kubeconfig sets for it.

    Args:
        chosen: The context.
        plugin: Its plugin.
        is_vouched_for: It was allowed when this kubeconfig was made, and needs no confirmation.

    Raises:
        PluginUnconfirmedError: The operator has not allowed it.
        PluginRefusedError: A kuberc forbids it.
        ConfigError: The program does not exist, or the kuberc is wrong.
    """
    name = plugin.argv[0]
    program = _resolved(name)
    if not program:
        raise plugin_missing_error(chosen, plugin)
    request = PluginRequest(chosen.user_file, chosen.context, name, program, plugin.argv[1:], plugin.environment)
    if not is_vouched_for and not _is_allowed_by_settings(request) and not _is_confirmed(request):
        raise PluginUnconfirmedError(request)
    return (program, *plugin.argv[1:])


def plugin_missing_error(chosen: ChosenContext, plugin: ExecPlugin) -> ConfigError:
    """Return the error for a plugin that cannot be started."""
    return ConfigError(
        f"The kubeconfig {chosen.file} needs {plugin.argv[0]}, which cannot be started.",
        hint=plugin.install_hint or "Install it, or put it on PATH.",
    )


def factory_argv(plugin: ExecPlugin) -> tuple[str, ...]:
    """Return the plugin's arguments with its environment as options; empty if a variable has no option."""
    argv = list(plugin.argv)
    for name, value in plugin.environment:
        option = _PASSED_BY_ARGUMENT.get(name, "")
        if option and option not in argv:
            argv += [option, value]
        elif not option and name not in _WITHOUT_EFFECT:
            return ()
    return tuple(argv)


def require_allowed(chosen: ChosenContext, *, replaces: Replaces) -> None:
    """Refuse a context whose plugin would have to be started, and may not be. Blocking disk I/O.

    Args:
        chosen: The context.
        replaces: Whether the plugin's argument list is replaced in this process.

    Raises:
        ConfigError: As by `allowed_command`, but not for a program that does not exist.
    """
    plugin = chosen.plugin
    if plugin is None or not _resolved(plugin.argv[0]):
        return
    argv = factory_argv(plugin)
    if not argv or replaces(argv) is None:
        allowed_command(chosen, plugin)


def require_usable(target: ClusterTarget, *, replaces: Replaces) -> None:
    """Refuse a kubeconfig, context or exec plugin that cannot be used. Having none is fine: a run may make its cluster.

    Blocking disk I/O; no network.

    Raises:
        ConfigError: As by `load_context`, but not for the lack of a kubeconfig, and as by `require_allowed`.
    """
    try:
        chosen = load_context(target)
    except NoKubeconfigError:
        return
    require_allowed(chosen, replaces=replaces)


def confirm(request: PluginRequest) -> None:
    """Store the operator's confirmation.

    Raises:
        ConfigError: It cannot be stored.
    """
    try:
        known = {*_confirmed(), request.fingerprint()}
        write_private(private_directory(state_folder()) / CONFIRMED, msgspec.json.encode(sorted(known)))
    except OSError as error:
        raise ConfigError(f"The confirmation cannot be stored: {error.strerror}.", hint="Free some space.") from error


def allow(names: Sequence[str]) -> None:
    """Allow plugins by name or path, in this process and those that it starts."""
    present = [name for name in os.environ.get(ALLOW_VARIABLE, "").split(os.pathsep) if name]
    os.environ[ALLOW_VARIABLE] = os.pathsep.join(dict.fromkeys([*present, *names]))


def allowances(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variable that allows plugins, if it is set."""
    return {ALLOW_VARIABLE: environment[ALLOW_VARIABLE]} if environment.get(ALLOW_VARIABLE) else {}


def _is_allowed_by_settings(request: PluginRequest) -> bool:
    """Return whether settings allow it.

    Raises:
        PluginRefusedError: A kuberc forbids it.
    """
    preference = load_preference()
    match preference.policy:
        case PluginPolicy.ALLOW_ALL:
            return True
        case PluginPolicy.DENY_ALL:
            raise PluginRefusedError(
                f"{preference.file} forbids all exec plugins, and {request.file} needs {request.program}.",
                hint="Change credentialPluginPolicy.",
            )
        case PluginPolicy.ALLOWLIST:
            if _is_listed(request, preference.allowed):
                return True
            raise PluginRefusedError(
                f"{preference.file} does not list the exec plugin {request.program}, which {request.file} needs.",
                hint="Add it to credentialPluginAllowlist.",
            )
    given = [name for name in os.environ.get(ALLOW_VARIABLE, "").split(os.pathsep) if name]
    return _is_listed(request, given) or _is_aws_token_command(request)


def _is_listed(request: PluginRequest, allowed: Sequence[str]) -> bool:
    """Return whether an entry matches, by KEP-3104: a path matches itself, a name its program in `PATH`."""
    return any(
        request.program == (os.path.normpath(entry) if "/" in entry else shutil.which(entry)) for entry in allowed
    )


def _is_aws_token_command(request: PluginRequest) -> bool:
    """Return whether it is a token command of AWS's own programs, found in `PATH`."""
    words = _AWS_COMMANDS.get(request.name, ())
    plain = [word for word in request.arguments if not word.startswith("-")]
    asked = any(tuple(plain[at : at + len(words)]) == words for at in range(len(plain)))
    return bool(words) and asked and {name for name, _ in request.environment} <= _HARMLESS


def _is_confirmed(request: PluginRequest) -> bool:
    try:
        return request.fingerprint() in _confirmed()
    except OSError:
        return False


def _confirmed() -> list[str]:
    try:
        return decode_json(read_file(state_folder() / CONFIRMED), list[str])
    except (OSError, msgspec.MsgspecError):
        return []


def _resolved(name: str) -> str:
    """Return the full path of a program, by our own `PATH`; empty if there is none."""
    if "/" in name:
        return os.path.normpath(name) if Path(name).is_file() else ""
    found = shutil.which(name)
    return os.path.abspath(found) if found else ""
