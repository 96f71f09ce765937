"""Who looks for each kind of check."""

from __future__ import annotations

from typing import assert_never

from actions.base.errors import ConsoleError
from actions.blueprint import checks
from actions.cloud.ecr import repository_of
from actions.run.access import Connection
from actions.run.checks.account import see_capacity, see_ecr_image, see_quota
from actions.run.checks.cluster import see_nodes, see_object, see_pods, see_pool, see_version
from actions.run.checks.internet import image_of, see_huggingface, see_image
from actions.run.checks.machine import see_tool
from actions.run.checks.seen import Seen, failed, passed
from actions.run.checks.volume import see_disk, see_files
from actions.run.secrets import fetch_secrets
from actions.run.stages.names import ref_of_name
from actions.run.volumejob import Volume
from actions.run.work import StageWork


async def ask(work: StageWork, connection: Connection, check: checks.AnyCheck) -> Seen:
    """Look once.

    Raises:
        ConsoleError: The cluster cannot be asked, or says that something is not there.
    """
    match check:
        case checks.QuotaCheck() | checks.CapacityCheck():
            return await _ask_account(work, check)
        case checks.RegistryCheck():
            return await _ask_registry(work, check)
        case checks.SecretCheck():
            return await _ask_secret(work, check)
        case checks.DiskCheck() | checks.FilesCheck():
            return await _ask_volume(work, check)
        case checks.ToolCheck():
            return see_tool(check.program)
        case _ as of_cluster:
            return await _ask_cluster(work, connection, of_cluster)


async def _ask_cluster(
    work: StageWork,
    connection: Connection,
    check: checks.ClusterCheck,
) -> Seen:
    match check:
        case checks.PodsCheck():
            return await see_pods(connection, check)
        case checks.NodesCheck():
            return await see_nodes(
                connection,
                check,
                selector=work.text(check.selector),
                at_least=work.whole(check.at_least),
                amount=work.text(str(check.amount)),
            )
        case checks.ObjectCheck():
            return await see_object(connection, ref_of_name(check.object, work.namespace))
        case checks.PoolCheck():
            return await see_pool(connection, work.text(check.instance_type))
        case checks.VersionCheck():
            return await see_version(connection, check)
        case _ as never:
            assert_never(never)


async def _ask_account(work: StageWork, check: checks.QuotaCheck | checks.CapacityCheck) -> Seen:
    region = work.view.cluster.region
    if isinstance(check, checks.QuotaCheck):
        return await see_quota(check, region=region, wanted=work.number(check.amount))
    return await see_capacity(
        region=region,
        capacity_type=work.text(check.capacity_type),
        reservation_id=work.text(check.reservation),
        instance_type=work.text(check.instance_type),
        count=work.whole(check.count),
        now=work.clock.now(),
    )


async def _ask_registry(work: StageWork, check: checks.RegistryCheck) -> Seen:
    text = work.text(check.image)
    image = image_of(text)
    repository = repository_of(f"{image.host}/{image.name}")
    if repository is not None:
        return await see_ecr_image(repository, image.reference)
    has_login = bool(check.login and work.binding.values.get(check.login))
    return await see_image(text, has_login=has_login)


async def _ask_secret(work: StageWork, check: checks.SecretCheck) -> Seen:
    reference = str(work.binding.values.get(check.parameter, ""))
    if not reference:
        return failed(f"{check.parameter} is not given.")
    try:
        found = await fetch_secrets([reference], region=work.view.cluster.region)
    except ConsoleError as error:
        return failed(error.message)
    if not check.huggingface:
        return passed(f"{reference} can be read.")
    return await see_huggingface(check.huggingface, found[reference])


async def _ask_volume(work: StageWork, check: checks.DiskCheck | checks.FilesCheck) -> Seen:
    volume = Volume(work.namespace, check.claim, check.mount)
    if isinstance(check, checks.DiskCheck):
        return await see_disk(work, volume, work.number(check.free_gib))
    return await see_files(
        work,
        volume,
        folder=work.text(check.folder),
        pattern=check.pattern,
        at_least=work.whole(check.at_least),
    )
