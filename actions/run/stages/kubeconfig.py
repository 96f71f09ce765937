"""The kubeconfig stage: the run's own kubeconfig, and the identity of its cluster."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import msgspec

from actions.base.errors import MissingError
from actions.base.files import write_private
from actions.blueprint.parts import REFERENCE
from actions.blueprint.stages import KubeconfigStage
from actions.cloud.aws_session import AwsSession, retry_not_found
from actions.cloud.eks import EksCluster, describe_cluster, kubeconfig_for, request_of
from actions.cluster.auth.exec_plugins import require_allowed
from actions.cluster.auth.kubeconfig import PLUGIN_EXTENSION, ChosenContext, ClusterTarget, load_context
from actions.cluster.auth.session import ClusterIdentity, are_one_cluster, require_one_cluster
from actions.run.context.protocols import Performed, StageFailedError
from actions.run.context.retry import REQUEST, STAGE, retry_unreachable
from actions.run.context.stage_context import CLUSTER_UID, StageContext, known_cluster_uid
from actions.run.journal.folder import kubeconfig_path


class KubeconfigHandler:
    """The kubeconfig stage: writes the run's file, mode 0600, from the chosen context or from EKS."""

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._stage = context.declared(KubeconfigStage)

    def describe(self) -> list[str]:
        path = kubeconfig_path(self._context.folder)
        if self._chosen() is not None:
            return [f"kubectl config view --minify --flatten > {path}"]
        name, region = self._wanted()
        return [f"aws eks update-kubeconfig --name {name} --region {region} --kubeconfig {path}"]

    async def probe(self) -> Performed | None:
        return None  # writing it again is cheap, and identifies the cluster again

    async def perform(self) -> Performed:
        target = self._chosen()
        data = copy_of(_allowed_context(target)) if target else await self._from_eks()
        write_private(kubeconfig_path(self._context.folder), data)
        await self._context.access.aclose()
        identity = await self._identity()
        known = known_cluster_uid(self._context.view)
        if known and are_one_cluster(known, identity.uid) is False:
            raise StageFailedError(
                f"{identity.name} is not the cluster that the run began with, but another one of that name.",
                hint="Restore the run's own cluster, or launch a new run.",
            )
        if known:
            require_one_cluster(known, identity.uid, identity.name)
        outputs = {CLUSTER_UID: identity.uid, "cluster_version": identity.version, "cluster_account": identity.account}
        return Performed(f"{identity.name} answers, Kubernetes {identity.version}.", outputs=outputs)

    async def undo(self) -> str:
        return "The run's kubeconfig stays in its folder."

    def _chosen(self) -> ClusterTarget | None:
        cluster = self._context.view.cluster
        if not cluster.kubeconfig and not cluster.context:
            return None
        path = Path(cluster.kubeconfig) if cluster.kubeconfig else None
        return ClusterTarget(path, cluster.context, cluster.namespace)

    def _wanted(self) -> tuple[str, str]:
        values = self._context.binding.everything | self._reported()

        def filled(text: str) -> str:
            return REFERENCE.sub(lambda match: str(values.get(match[1], "")), text)

        cluster = self._context.view.cluster
        return filled(self._stage.cluster) or cluster.name, filled(self._stage.region) or cluster.region

    def _reported(self) -> dict[str, str]:
        """Return the outputs of the stages that this one needs; they win over parameters."""
        return {
            name: value
            for stage in self._context.stage.needs
            for name, value in self._context.view.outputs.get(stage, {}).items()
        }

    async def _from_eks(self) -> bytes:
        name, region = self._wanted()
        session = AwsSession(region=region, threads=1)

        async def describe() -> EksCluster:
            return await describe_cluster(session, name, region=region)

        async def ask() -> bytes:
            found = await retry_not_found(describe, clock=self._context.clock)
            # The runner's own, which kubectl in another shell does not have; exported keys count before a profile.
            profile = "" if os.environ.get("AWS_ACCESS_KEY_ID") else os.environ.get("AWS_PROFILE", "")
            return kubeconfig_for(found, profile=profile, has_aws_cli=shutil.which("aws") is not None)

        try:
            self._context.journal.note(f"Looking up the cluster {name} in {region} in EKS.")
            return await retry_unreachable(ask, clock=self._context.clock, note=self._context.journal.note)
        finally:
            session.close()

    async def _identity(self) -> ClusterIdentity:
        async def ask() -> ClusterIdentity:
            # without the expected uid: the identity is compared below
            connection = await self._context.access.open("")
            return await connection.session.identity()

        self._context.journal.note("Reading the identity of the cluster.")
        policy = STAGE if known_cluster_uid(self._context.view) else REQUEST  # the credentials were accepted before
        identity = await retry_unreachable(
            ask, clock=self._context.clock, note=self._context.journal.note, policy=policy
        )
        if not identity.uid:
            raise MissingError("The cluster cannot be identified: its namespace kube-system is not there.")
        return identity


def _allowed_context(target: ClusterTarget) -> ChosenContext:
    """Return the context, if its exec plugin is allowed; the run's copy is not checked again."""
    chosen = load_context(target)
    require_allowed(chosen, replaces=request_of)
    return chosen


def copy_of(chosen: ChosenContext) -> bytes:
    """Return a kubeconfig with this one context, as JSON, which is also YAML."""
    cluster = {
        "server": chosen.server,
        "certificate-authority": chosen.ca_file,
        "certificate-authority-data": chosen.ca_data,
        "insecure-skip-tls-verify": chosen.is_insecure,
        "tls-server-name": chosen.tls_server_name,
        "proxy-url": chosen.proxy_url,
        "extensions": _extensions_of(chosen),
    }
    user: dict[str, Any] = {
        "client-certificate": chosen.certificate_file,
        "client-certificate-data": chosen.certificate_data,
        "client-key": chosen.key_file,
        "client-key-data": chosen.key_data,
        "token": chosen.token,
        "tokenFile": chosen.token_file,
        "username": chosen.username,
        "password": chosen.password,
        "exec": _plugin_of(chosen),
        **msgspec.to_builtins(chosen.impersonation),
    }
    context = {"cluster": chosen.cluster, "user": chosen.context, "namespace": chosen.namespace}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": chosen.context,
        "clusters": [{"name": chosen.cluster, "cluster": _given(cluster)}],
        "contexts": [{"name": chosen.context, "context": _given(context)}],
        "users": [{"name": chosen.context, "user": _given(user)}],
    }
    return msgspec.json.format(msgspec.json.encode(document))


def _plugin_of(chosen: ChosenContext) -> dict[str, Any] | None:
    plugin = chosen.plugin
    if plugin is None:
        return None
    return {
        "apiVersion": plugin.api_version,
        "command": plugin.argv[0],
        "args": list(plugin.argv[1:]),
        "env": [{"name": name, "value": value} for name, value in plugin.environment],
        "installHint": plugin.install_hint,
        "interactiveMode": "Never",
        "provideClusterInfo": bool(plugin.cluster_info),
    }


def _extensions_of(chosen: ChosenContext) -> list[dict[str, Any]]:
    """Return the cluster entry's extension for the plugin, if there is one."""
    info = msgspec.json.decode(chosen.plugin.cluster_info) if chosen.plugin and chosen.plugin.cluster_info else {}
    return [{"name": PLUGIN_EXTENSION, "extension": info["config"]}] if "config" in info else []


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}
