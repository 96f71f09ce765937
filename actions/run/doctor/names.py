"""Names that a launch takes, and what has them already: resources of the account, other runs of this machine."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path

import msgspec

from actions.base.errors import ConsoleError, MissingError, RefusedError
from actions.base.wording import listed
from actions.blueprint.parts import Scalar
from actions.blueprint.stages import TerraformStage
from actions.cloud.aws_session import AwsSession, pages
from actions.cloud.eks import describe_cluster
from actions.cluster.kinds import JOB_NAMES
from actions.run.checks.external import aws_session
from actions.run.checks.observation import Observation, failed, passed, unknown
from actions.run.doctor.account import Caller
from actions.run.doctor.launch import PlannedLaunch
from actions.run.doctor.report import Question
from actions.run.journal.embedded import account_has_ended
from actions.run.journal.reader import RunSummary, load_run
from actions.run.paid import paid_of
from actions.run.state.records import CheckResult
from actions.run.state.view import OVER, RunState, RunView
from actions.run.summaries import list_runs

_SHOWN = 5
"""The most names in a sentence."""
OTHER_RUNS = "other runs"
"""The name of the check for other runs of this machine, by which it is waived."""


class NameKind(StrEnum):
    """A kind of resource whose name is taken once in an account and region; the value is its text on screen."""

    CLUSTER = "EKS cluster"
    NODE_GROUP = "node group"
    ROLE = "IAM role"
    REPOSITORY = "ECR repository"


class TakenName(msgspec.Struct, frozen=True):
    """A name that a stage will take."""

    kind: NameKind
    name: str
    cluster: str = ""
    """With a node group: the cluster that it is in."""


def names_of_root(root: str, variables: Mapping[str, Scalar]) -> Iterator[TakenName]:
    """Yield the names that one of the program's own roots takes; none for any other root.

    Source: the roots' `main.tf`; a test compares.
    """
    cluster = str(variables.get("cluster_name", ""))
    match root:
        case "common/terraform/cluster":
            yield TakenName(NameKind.CLUSTER, cluster)
            if str(variables.get("karpenter", "")).lower() == "true":
                yield TakenName(NameKind.ROLE, f"{cluster}-node")
        case "common/terraform/nodes":
            group = str(variables.get("node_group_name", ""))
            yield TakenName(NameKind.NODE_GROUP, group, cluster)
        case "common/terraform/registry":
            yield TakenName(NameKind.REPOSITORY, str(variables.get("repository_name", "")))


def names_of(launch: PlannedLaunch) -> list[TakenName]:
    """Return the names that the Terraform stages of a launch take."""
    return [
        taken
        for stage in launch.stages
        if isinstance(stage, TerraformStage)
        for taken in names_of_root(stage.root, launch.variables(stage))
    ]


_REMEDIES = {
    NameKind.CLUSTER: "Choose another cluster_name, tear the other run down, or launch with --existing-cluster.",
    NameKind.NODE_GROUP: "Choose another cluster_name, or delete the node group: aws eks delete-nodegroup.",
    NameKind.ROLE: "Choose another cluster_name, or delete the role: aws iam delete-role.",
    NameKind.REPOSITORY: "Choose another repository_name, or delete the repository: aws ecr delete-repository.",
}


_LOOK_YOURSELF = "Look for {name} in the AWS console, or allow the call (`eksml-tui print iam launch`)."


def name_questions(launch: PlannedLaunch, caller: Caller) -> list[Question]:
    """Return a question for each name that a launch takes in the account."""
    return [
        Question(
            f"name of {taken.kind}",
            partial(check_name, launch.region, taken, caller),
            _REMEDIES[taken.kind],
            way=_LOOK_YOURSELF.format(name=taken.name),
            is_blocking=True,
        )
        for taken in names_of(launch)
    ]


async def check_name(region: str, taken: TakenName, caller: Caller) -> Observation:
    """Check that nothing in the account and region has a name.

    Raises:
        AccessError: No right for the call that looks.
        UnreachableError: No answer.
    """
    caller.require()
    try:
        async with aws_session(region) as session:
            await _look_up(session, taken)
    except MissingError:
        return passed(f"{taken.name} is free.")
    where = f" in {taken.cluster}" if taken.cluster else ""
    return failed(f"{taken.kind} {taken.name} exists already{where}.")


async def _look_up(session: AwsSession, taken: TakenName) -> None:
    match taken.kind:
        case NameKind.CLUSTER:
            await describe_cluster(session, taken.name)
        case NameKind.NODE_GROUP:
            await _require_node_group(session, taken)
        case NameKind.ROLE:
            await session.call("iam", "get_role", RoleName=taken.name)
        case NameKind.REPOSITORY:
            await session.call("ecr", "describe_repositories", repositoryNames=[taken.name])


async def _require_node_group(session: AwsSession, taken: TakenName) -> None:
    await describe_cluster(session, taken.cluster)  # most often there is none yet, and then no list either
    async for answer in pages(session, "eks", "list_nodegroups", clusterName=taken.cluster):
        if taken.name in (answer.get("nodegroups") or ()):
            return
    raise MissingError(f"{taken.cluster} has no node group {taken.name}.")


def run_questions(launch: PlannedLaunch, base: Path | None = None) -> list[Question]:
    """Return the questions for other runs of this machine: in the launch's place, or keeping data beside it."""
    there = Question(OTHER_RUNS, partial(check_runs, launch, base), "Look at the other run.", is_blocking=True)
    kept = Question("kept data", partial(check_kept, launch, base), "Look at the other run.")
    return [there, kept] if launch.makes_cluster else [there]


def require_no_other_run(launch: PlannedLaunch, base: Path | None = None, *, waived: Collection[str] = ()) -> None:
    """Require that no run is in the place of a launch, unless that check is waived by its name.

    Forms and commands show the same finding as a line of their checks. The launch itself asks again: a script has no
    form, and a form may be open for an hour.

    Raises:
        RefusedError: One is.
        ConfigError: The folder of all runs cannot be read.
    """
    found = _runs_there(launch, base)
    if found.result is CheckResult.FAILED and OTHER_RUNS not in waived:
        raise RefusedError(found.detail, hint=found.remedy)


async def check_runs(launch: PlannedLaunch, base: Path | None = None) -> Observation:
    """Check that no other run is in the place of a launch; see `_runs_there`."""
    return _runs_there(launch, base)


def _runs_there(launch: PlannedLaunch, base: Path | None) -> Observation:
    """Check that no run of the same blueprint is left in cluster and namespace, and that none has made the cluster.

    Raises:
        ConfigError: The folder of all runs cannot be read.
    """
    there = [run for run in list_runs(base) if run.cluster == launch.cluster and not run.is_copy]
    left = [run for run in there if run.error or run.state is not RunState.TORN_DOWN]
    return runs_observation(launch, sorted(left, key=lambda run: bool(run.taken_by) or run.state in OVER))


async def check_kept(launch: PlannedLaunch, base: Path | None = None) -> Observation:
    """Check that no torn-down run keeps storage of a cluster of that name: the launch makes and pays its own beside it.

    Raises:
        ConfigError: The folder of all runs cannot be read.
    """
    paid = [run.paid for run in list_runs(base) if run.cluster == launch.cluster and run.paid is not None]
    kept = [one for one in paid if one.is_kept and one.is_simulated == launch.is_cost_simulated]
    if not kept:
        return passed(f"No run that is torn down keeps data of {launch.cluster}.")
    whole = paid_of(kept)
    titles = listed([thing.title for thing in whole.things], _SHOWN)
    runs = listed([one.run for one in kept], _SHOWN)
    keeps = f"The run {runs} is torn down and keeps" if len(kept) == 1 else f"The runs {runs} are torn down and keep"
    return failed(
        f"{keeps} data of {launch.cluster} for {whole.hourly.text}: {titles}. "
        "This launch makes and pays for its own beside it.",
        remedy=f"To end it: eksml-tui runs teardown {kept[0].run} --confirm {launch.cluster} --delete-data",
    )


def runs_observation(launch: PlannedLaunch, runs: Sequence[RunSummary]) -> Observation:
    """Return the result for runs in the same cluster that are not torn down; those at work come first."""
    unsure = ""
    for run in runs:
        try:
            view = load_run(run.folder)
        except ConsoleError as error:
            unsure = unsure or f"The run {run.id} cannot be read: {error.message}"
            continue
        if view.is_cost_simulated != launch.is_cost_simulated or account_has_ended(view, run.folder):
            continue
        is_in_place = (view.blueprint_id, view.cluster.namespace) == (launch.blueprint.id, launch.namespace)
        if is_in_place and run.taken_by:
            unsure = unsure or (
                f"{run.taken_by} has taken over the run {run.id} of this blueprint in {launch.namespace} of "
                f"{run.cluster}: what is left of it there is not known here."
            )
        elif is_in_place and (run.state not in OVER or jobs_of(view) or (launch.makes_cluster and has_roots(view))):
            detail = f"The run {run.id} of this blueprint, {run.state}, is in {launch.namespace} of {run.cluster}."
            return failed(detail, remedy=_remedy(view, launch))
        elif launch.makes_cluster and not view.existing_cluster and (run.state not in OVER or has_roots(view)):
            detail = f"The run {run.id}, {run.state}, has made a cluster {run.cluster}: nodes would collide."
            return failed(detail, remedy=_remedy(view, launch))
    if unsure:
        return unknown(unsure, remedy="Look at it: eksml-tui runs list --cluster")
    return passed(f"No other run of {launch.blueprint.id} is in {launch.namespace} of {launch.cluster}.")


def jobs_of(view: RunView) -> list[str]:
    """Return the jobs that a run has left, as `kind/name`; other objects are found and used by a later run."""
    made = [item for item in view.owned if item.kind in JOB_NAMES and not (item.existed or item.is_deleted)]
    return [f"{item.kind.lower()}/{item.name}" for item in made]


def has_roots(view: RunView) -> bool:
    """Return whether a run has left what Terraform has made for it."""
    return any(stage.kind == "terraform" and stage.held and stage.held[-1].end is None for stage in view.stages)


def _remedy(view: RunView, launch: PlannedLaunch) -> str:
    """Return the ways to a launch that does not collide: a namespace alone is none, as nodes and volumes have none."""
    if view.state is RunState.TEARING_DOWN:
        return "Wait until it is torn down; or choose another cluster_name."
    ways = [f"Tear it down: eksml-tui runs teardown {view.id} --confirm {view.cluster.name}"]
    is_alike = view.blueprint_id == launch.blueprint.id and view.cluster.namespace == launch.namespace
    jobs = jobs_of(view) if is_alike and view.state in OVER else []
    if jobs:  # the run's journal does not have what others delete
        delete = f"or delete its job: kubectl delete -n {view.cluster.namespace} {' '.join(jobs)}"
        reuse = ", use its cluster: --existing-cluster" if launch.makes_cluster else ""
        ways.append(f"{delete}{reuse}, and waive this check")
    elif launch.makes_cluster and (view.state in OVER or not is_alike):
        ways.append("or use its cluster: --existing-cluster")
    if launch.makes_cluster:
        ways.append("or choose another cluster_name")
    return f"{'; '.join(ways)}."
