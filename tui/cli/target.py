"""The cluster that the command line selects."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import msgspec

from actions.cluster.auth.kubeconfig import ClusterTarget

if TYPE_CHECKING:
    from actions.cluster.auth.session import KubeSession

T = TypeVar("T")


class ChosenTarget(msgspec.Struct, frozen=True):
    """A cluster, with the environment variables that child processes need for it."""

    target: ClusterTarget
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    region: str = ""
    profile: str = ""
    demo_speed: float | None = None
    """Set for the embedded cluster: the speed of its workloads as a multiple of real time."""


def chosen_target(options: Namespace) -> ChosenTarget:
    """Return the cluster that the options select; start the embedded one for `--demo`."""
    if options.allow_plugin:
        from actions.cluster.auth.exec_plugins import allow

        allow(options.allow_plugin)
    if options.demo:
        return _demo(options)
    environment = aws_environment(options)
    target = ClusterTarget(kubeconfig=options.kubeconfig, context=options.context, namespace=options.namespace)
    region = options.region or os.environ.get("AWS_REGION", "") or os.environ.get("AWS_DEFAULT_REGION", "")
    return ChosenTarget(target, environment, region, options.profile or os.environ.get("AWS_PROFILE", ""))


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


def ask_cluster(options: Namespace, ask: Callable[[KubeSession], Awaitable[T]]) -> T:
    """Ask the chosen cluster one question, read-only."""
    from actions.cloud.eks import token_factory
    from actions.cluster.auth.session import KubeSession

    chosen = chosen_target(options)
    os.environ.update(chosen.environment)  # for boto3, if a token is needed

    async def session() -> T:
        require_target(chosen.target)
        opened = await KubeSession.connect(chosen.target, readonly=True, token_factory=token_factory)
        try:
            return await ask(opened)
        finally:
            await opened.aclose()

    return asyncio.run(session())


def asked(question: str, *, name: str = "") -> bool:
    """Ask on the terminal; return whether the answer is yes, or `name` where one is given."""
    sys.stderr.write(f"{question} {f'Type {name}:' if name else '[y/N]'} ")
    sys.stderr.flush()
    answer = sys.stdin.readline().strip()
    return answer == name if name else answer.lower() in {"y", "yes"}


def _demo(options: Namespace) -> ChosenTarget:
    from tui.cli.sandbox import demos, require_s3

    require_s3(options)
    (demo,) = demos(options.region, starts=True, speed=options.speed)
    target = ClusterTarget(kubeconfig=demo.kubeconfig, context=options.context, namespace=options.namespace)
    return ChosenTarget(target, demo.environment, demo.environment["AWS_REGION"], demo_speed=demo.speed)
