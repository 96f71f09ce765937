"""The caller's rights in the account: the policies that ship with the program, as IAM simulates them."""

from __future__ import annotations

from functools import partial

from actions.base.wording import counted, listed
from actions.blueprint.stages import ImageStage
from actions.cloud.rights import PolicySimulation, fetch_principal, simulate
from actions.run.checks.external import aws_session
from actions.run.checks.observation import Observation, failed, passed, unknown
from actions.run.doctor.account import Caller
from actions.run.doctor.launch import PlannedLaunch
from actions.run.doctor.report import Question
from actions.run.doctor.sources import repository_for

_SHOWN = 6
_READ_DIRECTLY = "secretsmanager"
"""Secrets are read, each with a line of its own."""
_WAY = (
    "Allow iam:SimulatePrincipalPolicy (`eksml-tui print iam launch`), or compare your own policies with"
    " `eksml-tui print iam {policy}`."
)
_REMEDY = "Have an administrator attach `eksml-tui print iam {policy}`, with your names for its capital words."


def policy_questions(launch: PlannedLaunch | None, caller: Caller, region: str) -> list[Question]:
    """Return a question for each policy that a launch needs; for `None`, for the one for looking.

    Args:
        launch: The launch.
        caller: Of the credentials.
        region: For the names in the policies.
    """
    policies = ("view",) if launch is None else ("launch", "teardown")
    return [
        Question(
            f"rights of {policy}.json",
            partial(check_policy, policy, launch, caller, region),
            _REMEDY.format(policy=policy),
            way=_WAY.format(policy=policy),
        )
        for policy in policies
    ]


async def check_policy(policy: str, launch: PlannedLaunch | None, caller: Caller, region: str) -> Observation:
    """Check that IAM allows the caller all that a shipped policy does.

    Raises:
        AccessError: No credentials, or no right to simulate.
        ConsoleError: IAM cannot simulate it, or does not answer.
    """
    caller.require()
    arn = caller.identity.arn if caller.identity else ""
    async with aws_session(region) as session:
        principal = await fetch_principal(session, arn)
        if not principal:
            return passed("The account's root user may do everything that the organization allows.")
        names = names_in_policies(launch, caller, region, principal)
        without = frozenset({_READ_DIRECTLY} if "REPOSITORY" in names else {_READ_DIRECTLY, "ecr"})
        found = await simulate(session, principal, policy, names, without=without)
    return simulation_observation(found, principal)


def names_in_policies(launch: PlannedLaunch | None, caller: Caller, region: str, principal: str) -> dict[str, str]:
    """Return the values of the capital words of the shipped policies that are known before a launch.

    The security group is not: the network stage makes it.
    """
    _, partition, _, _, account, name = principal.split(":", 5)
    names = {"PARTITION": partition, "ACCOUNT": account, "PRINCIPAL": name, "REGION": region}
    if launch is None:
        return names
    names["CLUSTER"] = launch.cluster
    for stage in launch.stages:
        if isinstance(stage, ImageStage):
            repository = repository_for(launch, stage, caller.account)
            if repository is not None:
                names["REPOSITORY"] = repository.name
    return names


def simulation_observation(found: PolicySimulation, principal: str) -> Observation:
    """Return the result for one policy."""
    whose = principal.split(":", 5)[5]
    if found.denied:
        named = listed(found.denied, _SHOWN)
        return failed(f"IAM denies {whose} {len(found.denied)} of {found.asked} rights: {named}.")
    later = f" Not asked, as names are not known yet: {listed(found.unasked, _SHOWN)}." if found.unasked else ""
    if not found.asked:
        return unknown(f"None of its rights can be simulated.{later}")
    return passed(f"Granted to {whose}, as IAM simulates: {counted(found.asked, 'right')}.{later}")
