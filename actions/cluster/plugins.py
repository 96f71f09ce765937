"""The exec plugins of a kubeconfig that may be started: they are programs that a file names.

In this order: what a kuberc says (`credentialPluginPolicy`); names that were given with `--allow-plugin`; the token
commands of AWS; what the operator has confirmed before. Everything else has to be confirmed, once for each program,
its content, arguments and environment.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from actions.base.errors import ConfigError
from actions.base.files import private_directory, state_home, write_private
from actions.base.untrusted import one_line, redact
from actions.cluster.kubeconfig import ChosenContext, ClusterTarget, ExecPlugin, NoKubeconfigError, load_context
from actions.cluster.kuberc import PluginPolicy, load_preference

ALLOW_VARIABLE = "EKSML_ALLOW_PLUGINS"
"""Names or full paths, separated like `PATH`; a run keeps what it was launched with."""
CONFIRMED = "credential-plugins.json"
_AWS_COMMANDS = {"aws": ("eks", "get-token"), "aws-iam-authenticator": ("token",)}
_HARMLESS = frozenset(
    {"AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_STS_REGIONAL_ENDPOINTS"}
)
"""Others, such as `AWS_CONFIG_FILE` or `LD_PRELOAD`, make the command start something else."""
_LONGEST_ARGUMENT = 200

Replaces = Callable[[Sequence[str]], object]
"""Tells of an argument list whether it is replaced in this process, and never started."""


class PluginRefusedError(ConfigError):
    """An exec plugin may not be started. The program ends with exit code 2."""


class PluginUnconfirmedError(PluginRefusedError):
    """An exec plugin may be started if the operator says so.

    Args:
        request: What to ask.
    """

    def __init__(self, request: PluginRequest) -> None:
        super().__init__(
            f"The kubeconfig {request.file} wants to start {request.program}, which nobody has allowed.",
            hint=f"Start eksml-tui on a terminal to be asked, give --allow-plugin {request.name}, set {ALLOW_VARIABLE},"
            " or list it in ~/.kube/kuberc.",
        )
        self.request = request


class PluginRequest(msgspec.Struct, frozen=True):
    """A program that a kubeconfig wants to start."""

    file: str
    """The kubeconfig."""
    context: str
    name: str
    """As the kubeconfig has it."""
    program: str
    """Its full path."""
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]

    def lines(self) -> list[str]:
        """The text of the question: credentials in it are replaced."""
        shown = [f"{name}={value}" for name, value in self.environment]
        said = (one_line(redact(word), limit=_LONGEST_ARGUMENT) for word in (*shown, self.program, *self.arguments))
        return [f"{self.file}, context {self.context}, wants to start:", "", *(f"  {word}" for word in said)]

    def fingerprint(self) -> str:
        """Of what is confirmed: another program in its place, other arguments or variables are another one.

        Raises:
            OSError: The program cannot be read.
        """
        with open(self.program, "rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        parts = [os.path.realpath(self.program), content, self.arguments, self.environment]
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def allowed_command(chosen: ChosenContext, plugin: ExecPlugin, *, is_vouched_for: bool = False) -> tuple[str, ...]:
    """The argument list of a plugin that may be started, its program by its full path. Blocking disk I/O.

    The program is looked up in our own `PATH`, whatever the kubeconfig sets for it.

    Args:
        chosen: The context.
        plugin: Its plugin.
        is_vouched_for: It was allowed when this kubeconfig was made; nothing is asked any more.

    Raises:
        PluginUnconfirmedError: The operator has not allowed it.
        PluginRefusedError: A kuberc forbids it.
        ConfigError: It is not there, or the kuberc is wrong.
    """
    name = plugin.argv[0]
    program = _resolved(name)
    if not program:
        raise not_there(chosen, plugin)
    request = PluginRequest(chosen.user_file, chosen.context, name, program, plugin.argv[1:], plugin.environment)
    if not is_vouched_for and not _is_said_to_be_allowed(request) and not _is_confirmed(request):
        raise PluginUnconfirmedError(request)
    return (program, *plugin.argv[1:])


def not_there(chosen: ChosenContext, plugin: ExecPlugin) -> ConfigError:
    """The sentence for a plugin that cannot be started."""
    return ConfigError(
        f"The kubeconfig {chosen.file} needs {plugin.argv[0]}, which cannot be started.",
        hint=plugin.install_hint or "Install it, or put it on PATH.",
    )


def require_allowed(chosen: ChosenContext, *, replaces: Replaces) -> None:
    """Refuse a context whose plugin would have to be started, and may not be. Blocking disk I/O.

    Args:
        chosen: The context.
        replaces: Of the plugin's argument list.

    Raises:
        ConfigError: As of `allowed_command`, but for a program that is not there.
    """
    from actions.cluster.credentials import factory_argv

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
        ConfigError: As of `load_context`, but for no kubeconfig at all, and as of `require_allowed`.
    """
    try:
        chosen = load_context(target)
    except NoKubeconfigError:
        return
    require_allowed(chosen, replaces=replaces)


def confirm(request: PluginRequest) -> None:
    """Remember that the operator allows it.

    Raises:
        ConfigError: It cannot be kept.
    """
    try:
        known = {*_confirmed(), request.fingerprint()}
        write_private(private_directory(state_home()) / CONFIRMED, msgspec.json.encode(sorted(known)))
    except OSError as error:
        raise ConfigError(f"The answer cannot be kept: {error.strerror}.", hint="Free some space.") from error


def allow(names: Sequence[str]) -> None:
    """Allow plugins by name or path, in this process and those that it starts."""
    present = [name for name in os.environ.get(ALLOW_VARIABLE, "").split(os.pathsep) if name]
    os.environ[ALLOW_VARIABLE] = os.pathsep.join(dict.fromkeys([*present, *names]))


def allowances(environment: Mapping[str, str]) -> dict[str, str]:
    """The variable by which plugins are allowed, if it is set."""
    return {ALLOW_VARIABLE: environment[ALLOW_VARIABLE]} if environment.get(ALLOW_VARIABLE) else {}


def _is_said_to_be_allowed(request: PluginRequest) -> bool:
    """Return whether settings allow it; they may also forbid it."""
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
    return _is_listed(request, given) or _is_of_aws(request)


def _is_listed(request: PluginRequest, allowed: Sequence[str]) -> bool:
    """By KEP-3104: a path matches itself, a name what `PATH` finds under it."""
    return any(
        request.program == (os.path.normpath(entry) if "/" in entry else shutil.which(entry)) for entry in allowed
    )


def _is_of_aws(request: PluginRequest) -> bool:
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
        return msgspec.json.decode((state_home() / CONFIRMED).read_bytes(), type=list[str])
    except (OSError, msgspec.MsgspecError):
        return []


def _resolved(name: str) -> str:
    """The full path of a program, by our own `PATH`; empty if there is none."""
    if "/" in name:
        return os.path.normpath(name) if Path(name).is_file() else ""
    found = shutil.which(name)
    return os.path.abspath(found) if found else ""
