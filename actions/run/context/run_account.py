"""The AWS account of a run: the one that its journal names, compared before anything is done in it.

Terraform drops from its state whatever the account of its credentials does not have, and calls that destroyed. So the
account is fetched from STS at the launch, written into the journal, and compared before each plan, apply, destroy,
audit and export.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from actions.base.errors import ConflictError, ConsoleError
from actions.blueprint.source_files import needs_account
from actions.blueprint.stages import AnyStage, ImageStage, NetworkStage, TerraformStage
from actions.cloud.account import fetch_identity
from actions.cloud.aws_session import AwsSession
from actions.run.context.retry import REQUEST, RetryPolicy, retry_unreachable
from actions.run.state.records import RunAccount
from actions.run.state.view import RunView

if TYPE_CHECKING:
    from actions.base.clock import Clock
    from actions.blueprint.model import Blueprint
    from actions.blueprint.parameters import Binding
    from actions.run.context.stage_context import StageContext


def works_in_account(blueprint: Blueprint, stage: AnyStage) -> bool:
    """Return whether a stage makes something in an AWS account. Roots of built-in resources do not.

    Raises:
        BlueprintError: A root cannot be read.
    """
    if isinstance(stage, TerraformStage):
        return needs_account(blueprint.folder, stage.root)
    return isinstance(stage, NetworkStage | ImageStage)


async def account_at_launch(blueprint: Blueprint, binding: Binding) -> RunAccount | None:
    """Fetch the account that a run will work in; `None` if it makes nothing in one.

    Args:
        blueprint: As it was loaded.
        binding: The values of its parameters.

    Raises:
        ConsoleError: There are no credentials, or AWS does not answer. A rehearsal goes without.
    """
    from actions.blueprint.parameters import skipped_stages

    chosen, preset = blueprint.under(binding.preset), blueprint.presets.get(binding.preset)
    skipped = skipped_stages(chosen, binding)
    if not any(works_in_account(chosen, stage) for stage in chosen.stages if stage.id not in skipped):
        return None
    try:
        return await fetch_account(binding.text("region", blueprint.cluster.region))
    except ConsoleError:
        if preset and preset.is_cost_simulated:
            return None
        raise


async def fetch_account(region: str) -> RunAccount:
    """Fetch the account of this process' credentials from STS.

    Raises:
        ConsoleError: As `fetch_identity`.
    """
    session = AwsSession(region=region, threads=1)
    try:
        found = await fetch_identity(session)
    finally:
        session.close()
    return RunAccount(found.account, region or found.region, found.partition, found.arn)


async def require_account(context: StageContext, *, policy: RetryPolicy = REQUEST) -> RunAccount:
    """Require credentials of the run's account; the first account of a run without one is recorded as its own.

    Raises:
        ConflictError: They are of another account.
        ConsoleError: There are none, or AWS does not answer within `policy`.
    """
    return await compare_account(
        context.view,
        clock=context.clock,
        note=context.journal.note,
        identify=context.journal.identify,
        policy=policy,
    )


async def compare_account(
    view: RunView,
    *,
    clock: Clock,
    note: Callable[[str], None],
    identify: Callable[[RunAccount], Awaitable[None]],
    policy: RetryPolicy = REQUEST,
) -> RunAccount:
    """Compare the account of this process' credentials with the run's.

    Args:
        view: The run.
        clock: For waiting.
        note: Takes the reason of each wait.
        identify: Records the account of a run that has none.
        policy: The retries until STS answers.

    Raises:
        ConflictError: It is another account.
        ConsoleError: There are no credentials, or AWS does not answer within `policy`.
    """

    async def ask() -> RunAccount:
        return await fetch_account(view.cluster.region)

    found = await retry_unreachable(ask, clock=clock, note=note, policy=policy)
    if view.account is None:
        await identify(found)
        return found
    if (found.id, found.partition) != (view.account.id, view.account.partition):
        raise other_account_error(view.account, found)
    return found


def other_account_error(wanted: RunAccount, found: RunAccount) -> ConflictError:
    """Return the refusal to act in another account than the run's."""
    return ConflictError(
        f"The run works in the AWS account {wanted.id} ({wanted.arn}), "
        f"but these credentials are of the account {found.id} ({found.arn}).",
        hint=f"Nothing was changed. Log in to {wanted.id}, or choose its --profile, and try again.",
    )
