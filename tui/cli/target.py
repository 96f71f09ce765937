"""The cluster that the command line selects."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec.structs import replace

from actions.base.errors import ConfigError
from actions.base.wording import listed
from actions.cluster.auth.kubeconfig import ClusterTarget, whole_context

if TYPE_CHECKING:
    from actions.cluster.auth.session import KubeSession

T = TypeVar("T")


class ChosenTarget(msgspec.Struct, frozen=True):
    """A cluster, with the environment variables that child processes need for it."""

    target: ClusterTarget
    contexts: tuple[str, ...] = ()
    """Those whose clusters the console follows at once; that of `target` among them."""
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    region: str = ""
    profile: str = ""
    demo_speed: float | None = None
    """Set for the embedded cluster: the speed of its workloads as a multiple of real time."""


def chosen_target(options: Namespace) -> ChosenTarget:
    """Return the cluster that the options select; start the embedded one for `--demo`."""
    allow_plugins(options)
    if options.demo:
        return _demo(options)
    environment = aws_environment(options)
    target = ClusterTarget(kubeconfig=options.kubeconfig, context=options.context, namespace=options.namespace)
    contexts = () if options.command else followed_contexts(target, options.contexts or ())
    target = replace(target, context=contexts[0] if contexts else target.context)
    region = options.region or os.environ.get("AWS_REGION", "") or os.environ.get("AWS_DEFAULT_REGION", "")
    return ChosenTarget(target, contexts, environment, region, options.profile or os.environ.get("AWS_PROFILE", ""))


def allow_plugins(options: Namespace) -> None:
    """Allow the exec plugins that the options name."""
    if options.allow_plugin:
        from actions.cluster.auth.exec_plugins import allow

        allow(options.allow_plugin)


def followed_contexts(target: ClusterTarget, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the contexts whose clusters are followed at once, the one that is on screen first; none for one alone.

    Args:
        target: The kubeconfig, and the context that was chosen, if one was: it is followed, too.
        wanted: Names of contexts, or of their clusters; `all` for one context of each cluster.

    Raises:
        ConfigError: There is no such context, or the kubeconfig cannot be read.
    """
    if not wanted:
        return ()
    from actions.cluster.auth.kubeconfig import contexts_of, load_context

    clusters = dict(contexts_of(target))
    current = target.context
    if not current:
        with suppress(ConfigError):  # it has none, or a broken one
            current = load_context(target).context
    names = [current] if current in clusters and (target.context or "all" in wanted) else []
    for word in [*clusters] if "all" in wanted else [whole_context(word, clusters) for word in wanted]:
        if word not in clusters:
            raise ConfigError(f"The kubeconfig has no context {word!r}.", hint=f"It has {listed([*clusters], 20)}.")
        if "all" not in wanted or clusters[word] not in {clusters[name] for name in names}:
            names.append(word)
    first = [current] if current in names else []
    return tuple(dict.fromkeys([*first, *names]))


def aws_environment(options: Namespace) -> dict[str, str]:
    """Return the variables that `--profile` and `--region` stand for, for this process and those that it starts."""
    if not options.profile:
        return {"AWS_REGION": options.region} if options.region else {}
    from actions.cloud.aws_session import profile_environment

    return profile_environment(options.profile) | ({"AWS_REGION": options.region} if options.region else {})


def require_target(target: ClusterTarget, *, may_ask: bool = True) -> None:
    """Refuse a kubeconfig that cannot be used, or whose exec plugin has not been allowed.

    Args:
        target: The cluster.
        may_ask: Ask on the terminal, if there is one, whether to allow the plugin.

    Raises:
        ConfigError: It cannot be used.
    """
    from actions.cloud.eks import request_of
    from actions.cluster.auth.exec_plugins import PluginUnconfirmedError, confirm, require_usable

    try:
        require_usable(target, replaces=request_of)
    except PluginUnconfirmedError as error:
        if not (may_ask and sys.stdin.isatty() and sys.stderr.isatty()):
            raise
        if not asked("\n".join([*error.request.lines(), "", "Start it now, and without asking in future?"])):
            raise
        confirm(error.request)


def ask_cluster(options: Namespace, ask: Callable[[KubeSession], Awaitable[T]], *, may_ask: bool = True) -> T:
    """Ask the chosen cluster one question, read-only; `may_ask` as of `require_target`."""
    chosen = chosen_target(options)
    os.environ.update(chosen.environment)  # for boto3, if a token is needed

    async def answer() -> T:
        async with session_to(chosen.target, may_ask=may_ask) as session:
            return await ask(session)

    return asyncio.run(answer())


@asynccontextmanager
async def session_to(target: ClusterTarget, *, may_ask: bool) -> AsyncIterator[KubeSession]:
    """Open a read-only session to a cluster; `may_ask` as of `require_target`."""
    from actions.cloud.eks import token_factory
    from actions.cluster.auth.session import KubeSession

    require_target(target, may_ask=may_ask)
    session = await KubeSession.connect(target, readonly=True, token_factory=token_factory)
    try:
        yield session
    finally:
        await session.aclose()


def asked(question: str, *, name: str = "") -> bool:
    """Ask on the terminal; return whether the answer is yes, or `name` where one is given."""
    sys.stderr.write(f"{question} {f'Type {name}:' if name else '[y/N]'} ")
    sys.stderr.flush()
    answer = sys.stdin.readline().strip()
    return answer == name if name else answer.lower() in {"y", "yes"}


def _demo(options: Namespace) -> ChosenTarget:
    from tui.cli.sandbox import demos, require_s3

    require_s3(options)
    (demo,) = demos(options.region, starts=True, speed=options.speed, nodes=options.nodes)
    target = ClusterTarget(kubeconfig=demo.kubeconfig, context=options.context, namespace=options.namespace)
    return ChosenTarget(target, (), demo.environment, demo.environment["AWS_REGION"], demo_speed=demo.speed)
