"""The way of a run that comes to this machine to account and cluster: by this machine's profile and contexts.

Names of profiles and contexts, and paths, are those of one machine. What the run brings along of another one is not
used: its region and endpoints stay, its profile, kubeconfig and permissions for exec plugins do not.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock
from actions.base.errors import ConsoleError, MissingError, RefusedError, UnreachableError
from actions.base.files import expanded, read_file, write_private
from actions.base.untrusted import one_line
from actions.cluster.auth.kubeconfig import ClusterTarget, load_context
from actions.run.context.protocols import StageFailedError
from actions.run.context.stage_context import known_cluster_uid
from actions.run.engine.live_backend import LiveBackend
from actions.run.journal.folder import (
    ENDPOINT_VARIABLE,
    S3_ENDPOINT_VARIABLE,
    environment_path,
    kubeconfig_path,
    load_environment,
)
from actions.run.launch import kept_environment, present_cluster
from actions.run.stages.kubeconfig import KubeconfigHandler
from actions.run.state.records import ClusterName, ContextChosen
from actions.run.takeover.arrival import ArrivalRecords
from actions.terraform.program import PROGRAM_VARIABLE, elsewhere

_OF_THE_RUN = frozenset({"AWS_REGION", "AWS_DEFAULT_REGION", ENDPOINT_VARIABLE, S3_ENDPOINT_VARIABLE})
_ANSWER_SECONDS = 20.0
"""Limit of one way to a cluster that the run has reached before."""
_TRIED_SECONDS = 10.0
"""Limit for a cluster that the run has not reached, by the store's records."""
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_PROFILE = "AWS_PROFILE"
_KUBECONFIG = "KUBECONFIG"


class Reached(msgspec.Struct, frozen=True):
    """The result of an attempt to reach a run's cluster from this machine."""

    is_reached: bool
    text: str
    """One sentence: by what, or why not."""


def require_same_endpoint(brought: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Require that requests with this machine's credentials go where it sends them itself, or stay on it.

    Args:
        brought: The variables that a run brings along.
        environment: This machine's, as for `start_runner`.

    Raises:
        RefusedError: The run's AWS is at an address that this machine has not chosen.
    """
    for name in (ENDPOINT_VARIABLE, S3_ENDPOINT_VARIABLE):
        there, here = brought.get(name, ""), environment.get(name) or os.environ.get(name, "")
        if there and there != here and urlsplit(there).hostname not in _LOOPBACK:
            raise RefusedError(
                f"The run calls AWS at {one_line(there)}, which this machine does not: credentials go there.",
                hint=f"If that is right, export {name}={shlex.quote(one_line(there))} first.",
            )


def bring_environment(folder: Path, environment: Mapping[str, str]) -> str:
    """Write the variables of a run's processes: region, endpoints and the program of its states are the run's, all
    others this machine's own.

    Args:
        folder: The run's, with the variables that it has brought along, if any.
        environment: This machine's, as for `start_runner`.

    Returns:
        A sentence on the credentials for AWS that they stand for.
    """
    path = environment_path(folder)
    brought = load_environment(folder) if path.exists() else {}
    kept = {name: value for name, value in brought.items() if name in _OF_THE_RUN}
    own = kept_environment(environment)
    program = elsewhere(brought.get(PROGRAM_VARIABLE, ""), own.get(PROGRAM_VARIABLE, ""))
    named = {PROGRAM_VARIABLE: program} if program else {}
    write_private(path, msgspec.json.encode(kept | own | named))
    return _credentials(environment, brought.get(_PROFILE, ""))


def _credentials(environment: Mapping[str, str], other: str) -> str:
    profile = environment.get(_PROFILE, "")
    if not profile and os.environ.get("AWS_ACCESS_KEY_ID"):
        text = "the exported keys of this machine"
    elif profile or os.environ.get(_PROFILE):
        text = f"this machine's profile {one_line(profile or os.environ[_PROFILE])}"
    else:
        text = "this machine's default credentials"
    used = profile or os.environ.get(_PROFILE, "")
    unused = f"; the other machine's profile {one_line(other)} is not used" if other and other != used else ""
    return f"AWS: {text}{unused}."


async def reach_cluster(
    folder: Path, records: ArrivalRecords, clock: Clock, *, target: ClusterTarget | None
) -> Reached:
    """Write the run's kubeconfig on this machine, and record the context that was chosen for it.

    A run that began with a context is reached by one of this machine: the same one of the same file, else one of its
    name, else the current one. A context of another cluster than the run's is never taken, so one of another file
    counts only if the run's cluster is known. A run whose cluster is from EKS gets it from there again, as the
    kubeconfig from there names a profile.

    Args:
        folder: The run's.
        records: Its journal.
        clock: The machine's.
        target: The context that the operator has chosen here; `None` to look for one.
    """
    view = records.view()
    chosen = records.contexts()
    if target is not None:
        return await _by_choice(folder, records, clock, target)
    if not chosen:
        from_eks = await _written(folder, records, clock, None)
        return _reached(from_eks, f"Cluster: {one_line(view.cluster.name)}, from EKS.")
    names = ", ".join(dict.fromkeys(one_line(each.context) for each in chosen))
    why: ConsoleError | None = MissingError(f"this machine has no context {names}.")
    for each in _contexts_here(chosen, is_known=bool(known_cluster_uid(view))):
        why = await _written(folder, records, clock, each)
        if why is None:
            return Reached(is_reached=True, text=_record(folder, records, each))
    return _reached(why, "")


async def _by_choice(folder: Path, records: ArrivalRecords, clock: Clock, target: ClusterTarget) -> Reached:
    """Use the context that the operator has named, also if it does not answer now: the other machine's is none."""
    is_known = bool(known_cluster_uid(records.view()))
    why = await _written(folder, records, clock, target, keeps=not is_known)
    text = "" if isinstance(why, StageFailedError) else _record(folder, records, target)
    return _reached(why, text)


def _reached(why: ConsoleError | None, text: str) -> Reached:
    return Reached(is_reached=why is None, text=text if why is None else why.message)


def _record(folder: Path, records: ArrivalRecords, target: ClusterTarget) -> str:
    """Record by which context of this machine the run reaches its cluster. Returns a sentence on it."""
    context, kubeconfig, found_by = present_cluster(target)
    body = ContextChosen(context, kubeconfig)
    cluster = records.view().cluster
    if (cluster.context, cluster.kubeconfig) != (context, kubeconfig):
        records.write(body)
    if found_by:
        write_private(environment_path(folder), msgspec.json.encode(load_environment(folder) | found_by))
    return f"Cluster: context {one_line(context)} of {kubeconfig or found_by.get(_KUBECONFIG) or '~/.kube/config'}."


async def _written(
    folder: Path, records: ArrivalRecords, clock: Clock, target: ClusterTarget | None, *, keeps: bool = True
) -> ConsoleError | None:
    """Write the run's kubeconfig by a context, or from EKS. Returns why that failed; `None` if it did not.

    Args:
        keeps: Leave the file as it was where nothing answers; where another cluster does, it is left in any case.
    """
    path = kubeconfig_path(folder)
    before = read_file(path) if path.exists() else None
    is_left, is_known = True, bool(known_cluster_uid(records.view()))
    why: ConsoleError | None
    try:
        async with asyncio.timeout(_ANSWER_SECONDS if is_known else _TRIED_SECONDS):
            why = await _connect(folder, records, clock, target)
        is_left = why is not None and (keeps or isinstance(why, StageFailedError))
    except TimeoutError:
        why = UnreachableError("it did not answer.")
        is_left = keeps
    finally:
        if is_left and before is not None:
            write_private(path, before)
        elif is_left:
            path.unlink(missing_ok=True)
    return why


async def _connect(
    folder: Path, records: ArrivalRecords, clock: Clock, target: ClusterTarget | None
) -> ConsoleError | None:
    """Write the run's kubeconfig, from EKS or a context of this machine, and identify the cluster.

    An exec plugin of the context needs the operator's permission, as at a launch.

    Returns:
        The reason why that failed; `None` if it did not.
    """
    view = records.view()
    stage = next((each for each in view.stages if each.kind == "kubeconfig"), None)
    if stage is None:
        return None
    if target is not None:
        path = str(expanded(target.kubeconfig).absolute()) if target.kubeconfig else ""
        cluster = replace(view.cluster, context=target.context, kubeconfig=path)
        view = replace(view, cluster=cluster)
    backend = LiveBackend(folder, clock)
    try:
        await KubeconfigHandler(backend.read_only_context(view, stage)).perform()
    except ConsoleError as error:
        return error
    finally:
        await backend.aclose()
    return None


def _contexts_here(chosen: Sequence[ClusterName], *, is_known: bool) -> Iterator[ClusterTarget]:
    """Yield the contexts of this machine that may be of the run's cluster, the likeliest first, each once."""
    seen: set[tuple[str, str, str]] = set()
    same = [ClusterTarget(Path(each.kubeconfig), each.context) for each in chosen if each.kubeconfig]
    named = [ClusterTarget(None, each.context) for each in chosen if each.context]
    if not is_known:
        named = [ClusterTarget(None, each.context) for each in chosen if each.context and not each.kubeconfig]
    for target in (*same, *named, *([ClusterTarget()] if is_known else [])):
        try:
            found = load_context(target)
        except ConsoleError:
            continue
        if (key := (found.file, found.context, found.server)) not in seen:
            seen.add(key)
            yield ClusterTarget(target.kubeconfig, found.context)
