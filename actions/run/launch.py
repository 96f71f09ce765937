"""The launch of a run: preconditions on this machine, its first record, and its complete folder."""

from __future__ import annotations

import asyncio
import base64
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from actions.base.clock import Clock
from actions.base.errors import BlueprintError, ConfigError, ConflictError, MissingError, RefusedError
from actions.base.executors import in_thread
from actions.base.files import (
    PRIVATE_DIRECTORY,
    PRIVATE_FILE,
    expanded,
    is_program,
    private_directory,
    read_file,
    wait_for_lock,
    write_private,
)
from actions.base.own_images import registry_variable
from actions.base.process import holders_of_locks
from actions.base.readonly import refuse_if_readonly
from actions.base.wording import listed
from actions.blueprint.catalogue import load_blueprint, require_access
from actions.blueprint.checks import NodesCheck, VersionCheck
from actions.blueprint.copied_files import copied_files, rehearsals_of
from actions.blueprint.launch_plan import LaunchPlan, plan_of
from actions.blueprint.mirror import CopyState, OperatorCopy, fetch_missing, operator_copies
from actions.blueprint.model import Blueprint, ParameterType
from actions.blueprint.operators import MANIFEST_FILE, SUM_FILE, operators_path
from actions.blueprint.parameters import Binding, makes_cluster, skipped_stages
from actions.blueprint.references import OF_KUBERNETES
from actions.blueprint.render import namespace_of
from actions.blueprint.source_files import git_modules, located, shared_by
from actions.blueprint.stages import CheckStage, KubeconfigStage, TerraformStage
from actions.blueprint.terraform_modules import (
    copy_archives,
    fetch_missing_modules,
    missing_modules,
    module_archive,
    needed_modules,
)
from actions.blueprint.version_rules import require_together
from actions.cloud.eks import request_of
from actions.cluster.auth.exec_plugins import allowances, require_allowed
from actions.cluster.auth.kubeconfig import ClusterTarget, load_context, parse_context_name
from actions.fleet.prices import PriceBook
from actions.run.context.operator import present_operator
from actions.run.context.run_account import account_at_launch
from actions.run.context.secrets import is_remote, resolve_secret
from actions.run.context.store_address import parse_store
from actions.run.journal.folder import (
    ENDPOINT_VARIABLE,
    S3_ENDPOINT_VARIABLE,
    blueprint_path,
    environment_path,
    heartbeat_path,
    journal_path,
    keep_reserve,
    lease_path,
    make_block,
    rehearsals_path,
    runner_log_path,
    runs_folder,
    starts_path,
)
from actions.run.journal.run_ids import take_number
from actions.run.journal.store import create_journal, refuse_network_filesystem
from actions.run.state.planner import order_of
from actions.run.state.records import ClusterName, Created, HeldPrice, Limits, RunAccount, StageOutline
from actions.run.store.listing import announce_run, withdraw_announced
from actions.run.store.s3 import open_store
from actions.run.summaries import list_runs
from actions.terraform.backend import own_backend, require_locks
from actions.terraform.modules import ModuleRelease, module_calls
from actions.terraform.program import (
    WANTED,
    find_program,
    missing_sentence,
    parse_version,
    product_of,
    program_variable,
    version_now,
)

_NEVER_STORED = frozenset({"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"})
_SHOWN = 3
_LOCK = ".launching"
_LOCK_SECONDS = 10.0
"""A folder is made in less than a second."""


class Supplies(msgspec.Struct, frozen=True):
    """The parts of a run that are neither in its blueprint nor in the program."""

    operators: tuple[OperatorCopy, ...]
    modules: tuple[ModuleRelease, ...]
    rehearsals: Mapping[str, object]
    """By stage, what pods of an embedded cluster print."""


def create_folder(
    created: Created,
    *,
    source: Path,
    environment: Mapping[str, str],
    clock: Clock,
    shared: Mapping[str, Path] = MappingProxyType({}),
    supplies: Supplies | None = None,
    base: Path | None = None,
    require_copy: Callable[[Path], object] = lambda _: None,
) -> Path:
    """Create the folder of a run: a copy of its blueprint, its operators' releases, its environment, its journal.

    Args:
        created: The journal's first record.
        source: The blueprint's folder.
        environment: Variables for the run's processes in addition to the console's own. Credentials are not stored;
            empty values are.
        clock: Stamps the journal.
        shared: What the blueprint uses from outside of its folder, files and folders, by their path in the copy.
        supplies: What it will use from elsewhere; of what is on this machine it keeps a copy.
        base: The folder of all runs, if not the usual one.
        require_copy: Called with the folder of the blueprint's copy before there is a run; its errors pass.

    Raises:
        BlueprintError: The blueprint cannot be copied.
        ConfigError: The folder cannot be created.
        JournalError: The folder lies on a network file system.
    """
    refuse_if_readonly(f"the launch of {created.blueprint_id}")
    runs = private_directory(base or runs_folder())
    refuse_network_filesystem(runs)
    scratch = runs / f".{created.run_id}.{os.getpid()}"
    final = runs / created.run_id
    if final.exists():
        raise ConfigError(f"There is already a run {created.run_id}.")
    files = copied_files(source, shared)
    numbered = replace(created, number=take_number(runs, created.run_id, lambda: _numbers_in(runs)))
    scratch.mkdir(mode=PRIVATE_DIRECTORY)
    try:
        _copy(files, blueprint_path(scratch))
        require_copy(blueprint_path(scratch))
        if supplies is not None:
            _copy_supplies(supplies, scratch)
        write_private(environment_path(scratch), msgspec.json.encode(kept_environment(environment)))
        create_journal(journal_path(scratch), numbered, clock)
        for block in (heartbeat_path(scratch), lease_path(scratch), starts_path(scratch)):
            make_block(block)
        write_private(runner_log_path(scratch), b"")
        keep_reserve(scratch)
        scratch.rename(final)
    except OSError as error:
        shutil.rmtree(scratch, ignore_errors=True)
        raise ConfigError(f"{final} cannot be made: {error.strerror}.", hint="Free some space there.") from error
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return final


def _numbers_in(runs: Path) -> dict[str, int]:
    """Return the numbers of runs by id, from their journals."""
    return {run.id: run.number for run in list_runs(runs) if run.number}


def kept_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a run's processes that are stored in its folder: all but credentials.

    Args:
        environment: Variables in addition to the console's own.
    """
    stated = {**allowances(os.environ), **registry_variable(os.environ), **program_variable(), **environment}
    kept = {name: value for name, value in stated.items() if not value or name not in _NEVER_STORED}
    endpoints = {name: os.environ[name] for name in (ENDPOINT_VARIABLE, S3_ENDPOINT_VARIABLE) if os.environ.get(name)}
    return endpoints | kept


def _copy(files: Mapping[Path, Path], target: Path) -> None:
    """Copy files into a folder, to the paths that are their keys."""
    for place, path in files.items():
        copy = target / place
        copy.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        try:
            write_private(copy, read_file(path), is_program=is_program(path))
        except OSError as error:
            raise ConfigError(
                f"{path} cannot be copied to {copy}: {error.strerror}.",
                hint="Free some space there, or check its rights.",
            ) from error


def _require_same(blueprint: Blueprint, copy: Path) -> None:
    """Require that the blueprint in `copy` is the one that was read, whose values and plan a person has seen.

    Raises:
        ConflictError: It is another one, or none.
    """
    why = "it is not the one that was read"
    try:
        if replace(load_blueprint(copy), folder=blueprint.folder) == blueprint:
            return
    except BlueprintError as error:
        why = error.text.rstrip(".")
    raise ConflictError(f"{blueprint.folder} has changed while it was copied: {why}.", hint="Launch again.")


def _copy_supplies(supplies: Supplies, folder: Path) -> None:
    """Keep releases as they are now: they are applied an hour later, perhaps again after days."""
    for operator in supplies.operators:
        if operator.path:
            place = operators_path(folder) / operator.name / operator.version
            place.mkdir(mode=PRIVATE_DIRECTORY, parents=True)
            for file in (MANIFEST_FILE, SUM_FILE):
                write_private(place / file, read_file(Path(operator.path).with_name(file)))
    copy_archives(supplies.modules, folder)
    if supplies.rehearsals:
        write_private(rehearsals_path(folder), msgspec.json.encode(supplies.rehearsals))


def _supplies(blueprint: Blueprint, binding: Binding) -> Supplies:
    """Return what the run will use from elsewhere. An existing cluster may have an operator already.

    Raises:
        MissingError: An operator's release is not on this machine.
        BlueprintError, ConflictError: A file is not the one that was recorded.
    """
    operators = operator_copies(blueprint, binding)
    for copy in operators:
        if not copy.path and not binding.existing_cluster:
            raise MissingError(
                f"{copy.name} {copy.version} is not on this machine.", hint=f"Run eksml-tui mirror {copy.name}."
            )
    return Supplies(operators, needed_modules(blueprint, binding), rehearsals_of(blueprint, binding))


def require_preconditions(
    blueprint: Blueprint, binding: Binding, *, before_fetching: bool = False, store: str = ""
) -> None:
    """Require the programs and secrets that the run will use.

    Args:
        blueprint: With its preset applied.
        binding: The values of its parameters.
        before_fetching: Archives of pinned modules are yet to come, so git is not needed for these.
        store: The store of the run, `s3://BUCKET/PREFIX`, where Terraform keeps its states.

    Raises:
        ConfigError: One is missing.
        RefusedError: Terraform is too old to lock a state in the store.
    """
    _require_programs(blueprint, binding, before_fetching=before_fetching)
    _require_locks(blueprint, binding, store)
    for name, parameter in blueprint.parameters.items():
        reference = binding.values.get(name)
        if parameter.type is ParameterType.SECRET and reference and not is_remote(str(reference)):
            _require_secret(name, str(reference))


def _require_programs(blueprint: Blueprint, binding: Binding, *, before_fetching: bool) -> None:
    skipped = skipped_stages(blueprint, binding)
    for stage in blueprint.stages:
        if not isinstance(stage, TerraformStage) or stage.id in skipped:
            continue
        program = find_program()
        if program is None:
            raise ConfigError(
                f"{blueprint.id} needs Terraform for {stage.id}: {missing_sentence()}",
                hint=f"Install {WANTED}, or launch with existing_cluster=true.",
            )
        calls = module_calls(located(blueprint.folder, stage.root))
        archived = {call.source for call in calls if before_fetching or module_archive(call.release) is not None}
        modules = [each for each in git_modules(blueprint.folder, stage.root) if each not in archived]
        if modules and shutil.which("git") is None:
            raise ConfigError(
                f"{blueprint.id} needs the git program for {stage.id}, and it is not on PATH: {program.name} init "
                f"fetches {listed(modules, _SHOWN)} with it.",
                hint="Install git, or launch with existing_cluster=true.",
            )


def _require_locks(blueprint: Blueprint, binding: Binding, store: str) -> None:
    """Require a Terraform that locks states in the store, if a root keeps its state there."""
    program, skipped = find_program(), skipped_stages(blueprint, binding)
    roots = [
        located(blueprint.folder, stage.root)
        for stage in blueprint.stages
        if isinstance(stage, TerraformStage) and stage.id not in skipped
    ]
    if store and program is not None and not all(own_backend(root) for root in roots):
        require_locks(parse_version(version_now(program)), store, product_of(program))


def _require_secret(name: str, reference: str) -> None:
    try:
        resolve_secret(reference)
    except ConfigError as error:
        sentence = f"The parameter {name} refers to a secret: {error.message}"
        raise ConfigError(sentence, hint="Set it, then launch.") from error


class LaunchOrder(msgspec.Struct, frozen=True):
    """A run that is to be made: of what, where, and how it is carried out."""

    blueprint: Blueprint
    """As it was loaded; its folder is copied into the run."""
    binding: Binding
    """The values of its parameters."""
    target: ClusterTarget
    """The operator's present cluster. A run that makes its own gets it from EKS, and never touches this one."""
    environment: Mapping[str, str]
    """See `create_folder`."""
    clock: Clock
    """Stamps the journal."""
    auto_approve: bool = False
    """Carry out plans without a request to approve them."""
    account: RunAccount | None = None
    """Of the credentials; `None` for that of its first contact with AWS."""
    limits: Limits = Limits()
    """At which it parks or tears itself down."""
    store_url: str = ""
    """The place that the run is replicated to, `s3://BUCKET/PREFIX`; empty for this machine alone. It is tried, which
    blocks for some seconds at most: a run whose store cannot be written is not created."""
    base: Path | None = None
    """The folder of all runs, if not the usual one."""

    @property
    def chosen(self) -> Blueprint:
        """The blueprint with its preset applied."""
        return self.blueprint.under(self.binding.preset)


async def launch_run(order: LaunchOrder, *, require: Callable[[], None], say: Callable[[str], None]) -> Path:
    """Create a run after its operators and Terraform modules were fetched; see `create_run`.

    Args:
        order: With or without its account, which AWS names.
        require: See `create_run`.
        say: Called with a sentence about what is fetched, and about what an existing cluster must have already.
    """
    chosen, binding = order.chosen, order.binding
    await in_thread("launch", require_preconditions, chosen, binding, before_fetching=True)
    copies = await in_thread("launch", operator_copies, chosen, binding)
    modules = await in_thread("launch", missing_modules, chosen, binding)
    absent = [f"{copy.name} {copy.version}" for copy in copies if copy.state is CopyState.FETCHED]
    absent += [module.key for module in modules]
    if absent:
        say(f"Fetching {', '.join(absent)}.")
    if not all(copy.path for copy in copies):
        for sentence in await in_thread("fetch", asyncio.run, fetch_missing(chosen, binding, clock=order.clock)):
            say(sentence)
    for sentence in await in_thread("fetch", asyncio.run, fetch_missing_modules(modules)):
        say(sentence)
    await in_thread("launch", require_preconditions, chosen, binding)
    account = await account_at_launch(order.blueprint, binding)
    return await in_thread("launch", create_run, replace(order, account=account), require=require)


def create_run(order: LaunchOrder, *, require: Callable[[], None] = lambda: None) -> Path:
    """Create a run of a blueprint, and return its folder. Nothing is started.

    Args:
        order: The run.
        require: Called last, with no other launch of this machine between this call and its folder; its errors pass.

    Raises:
        UsageError, AccessError, UnreachableError, RefusedError: The store is not one, or cannot be written.
        BlueprintError, ConflictError: It has no kubeconfig stage before one that works in the cluster, or has changed.
        ParameterError: Versions and instance types that cannot work together.
        ConfigError: The folder cannot be created; or a program, secret or kubeconfig that it needs is missing.
        MissingError: An operator's release is: `launch_run` fetches it.
        JournalError: The folder lies on a network file system.
    """
    blueprint, binding, clock, account = order.blueprint, order.binding, order.clock, order.account
    refuse_if_readonly(f"the launch of {blueprint.id}")
    require_access(blueprint)
    chosen = order.chosen
    require_preconditions(chosen, binding, store=order.store_url)
    require_together(blueprint, binding, clock.now().date())
    cluster, found_by = _cluster_of(blueprint, binding, order.target, is_made=makes_cluster(chosen, binding))
    first = first_record(blueprint, binding, run_id=new_run_id(blueprint.id, clock), cluster=cluster, clock=clock)
    created = replace(
        first,
        auto_approve=order.auto_approve,
        account=account,
        owner=present_operator(arn=account.arn if account else ""),
        store=str(parse_store(order.store_url)) if order.store_url else "",
        limits=order.limits,
    )
    supplies = _supplies(chosen, binding)
    with _announced(created, clock), one_at_a_time(order.base or runs_folder()):
        require()
        return create_folder(
            created,
            source=blueprint.folder,
            shared=shared_by(blueprint),
            supplies=supplies,
            environment={**order.environment, **found_by},
            clock=clock,
            base=order.base,
            require_copy=partial(_require_same, blueprint),
        )


@contextmanager
def one_at_a_time(runs: Path) -> Iterator[None]:
    """Wait until no other process or thread is here. The lock is the kernel's: it goes with the process that has it.

    Args:
        runs: The folder of all runs.

    Raises:
        ConfigError: The folder cannot be written.
        RefusedError: Another launch does not come to its end.
    """
    path = private_directory(runs) / _LOCK
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    except OSError as error:
        raise ConfigError(f"{path} cannot be made: {error.strerror}.", hint="Free some space there.") from error
    try:
        if not wait_for_lock(descriptor, _LOCK_SECONDS):
            who = ", ".join(holders_of_locks([path])) or "another process"
            raise RefusedError(
                f"Another launch on this machine, by {who}, has not made its run within {_LOCK_SECONDS:.0f} s.",
                hint="Wait for it, or end that process; then launch again.",
            )
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _announced(created: Created, clock: Clock) -> Iterator[None]:
    """Write the run's first object to its store, if it has one; take it back if the run is not created."""
    if not created.store:
        yield
        return
    store = open_store(created.store, region=created.cluster.region)
    try:
        asyncio.run(announce_run(store, created, clock=clock))
        try:
            yield
        except BaseException as error:
            asyncio.run(withdraw_announced(store, created.run_id, error))
            raise
    finally:
        store.close()


def first_record(blueprint: Blueprint, binding: Binding, *, run_id: str, cluster: ClusterName, clock: Clock) -> Created:
    """Return the first record of a run's journal: its stages in order, and its prices of today.

    Args:
        blueprint: As it was loaded.
        binding: The values of its parameters.
        run_id: The run's.
        cluster: The run's.
        clock: For the day of the prices.
    """
    chosen = blueprint.under(binding.preset)
    plan = plan_of(blueprint, binding, PriceBook.usual(), day=clock.now().date(), region=cluster.region)
    return Created(
        run_id=run_id,
        blueprint_id=blueprint.id,
        title=blueprint.title,
        preset=binding.preset,
        parameters=binding.values,
        cluster=cluster,
        stages=tuple(_outlines(chosen, plan, skipped=skipped_stages(chosen, binding))),
        existing_cluster=binding.existing_cluster,
        prices=tuple(_held_prices(plan)),
        is_cost_simulated=plan.is_cost_simulated,
    )


def _cluster_of(
    blueprint: Blueprint, binding: Binding, target: ClusterTarget, *, is_made: bool
) -> tuple[ClusterName, dict[str, str]]:
    """Return the cluster of a run, with the variables that pin it if it is the present one.

    Raises:
        RefusedError: The namespace is one of Kubernetes itself.
    """
    namespace = namespace_of(blueprint, binding, target)
    if namespace in OF_KUBERNETES:
        hint = "Name another one: --namespace NAME."
        raise RefusedError(f"{namespace!r} is a namespace of Kubernetes itself.", hint=hint)
    context, kubeconfig, found_by = ("", "", {}) if is_made else present_cluster(target)
    present = parse_context_name(context)
    cluster = ClusterName(
        name=present.cluster or binding.text("cluster_name", blueprint.cluster.name),
        region=present.region or binding.text("region", blueprint.cluster.region),
        context=context,
        kubeconfig=kubeconfig,
        namespace=namespace,
    )
    return cluster, found_by


def present_cluster(target: ClusterTarget) -> tuple[str, str, dict[str, str]]:
    """Return context, kubeconfig and variables that pin the present cluster: the current context may change later.

    Raises:
        ConfigError: There is no such context, or its exec plugin is not allowed.
    """
    chosen = load_context(target)
    require_allowed(chosen, replaces=request_of)
    context = chosen.context
    if target.kubeconfig is not None:
        return context, str(expanded(target.kubeconfig).absolute()), {}
    listed = [str(expanded(part).absolute()) for part in os.environ.get("KUBECONFIG", "").split(":") if part]
    return context, "", {"KUBECONFIG": ":".join(listed)} if listed else {}


def _held_prices(plan: LaunchPlan) -> Iterator[HeldPrice]:
    """Yield what the run pays by the hour: a holding once, with the first stage that holds it."""
    made: set[tuple[str, str]] = set()
    for stage in plan.stages:
        for rate in stage.rates:
            if rate.holding and (rate.holding, rate.name) in made:
                continue
            made.add((rate.holding, rate.name))
            yield HeldPrice(
                title=rate.name,
                stage=stage.id,
                usd_per_hour="" if rate.usd_per_hour is None else str(rate.usd_per_hour),
                is_of_work=not rate.holding,
                source=f"{rate.source}, {rate.as_of or 'no date'}" if rate.source else "",
                resource=rate.resource,
                nodes=rate.nodes,
                instance_type=rate.instance_type,
            )
    for item in plan.usage:
        yield HeldPrice(title=item.text, stage=item.stage, is_by_use=True)


def _first_needs(blueprint: Blueprint, skipped: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """Return the needs of check stages that run first: they look at nodes that no stage of this run makes.

    They need nothing but access to the cluster. What only warns, such as pods of a plugin, comes along.
    """
    access = tuple(stage.id for stage in blueprint.stages if isinstance(stage, KubeconfigStage))
    return {
        stage.id: access
        for stage in blueprint.stages
        if isinstance(stage, CheckStage)
        and any(need in skipped and isinstance(blueprint.stage(need), TerraformStage) for need in stage.needs)
        and all(isinstance(check, NodesCheck | VersionCheck) or not check.is_required for check in stage.checks)
    }


def _outlines(blueprint: Blueprint, plan: LaunchPlan, *, skipped: frozenset[str]) -> Iterator[StageOutline]:
    expected = {stage.id: stage for stage in plan.stages if not stage.is_skipped}
    needs = _first_needs(blueprint, skipped)
    needs |= {stage.id: stage.needs for stage in blueprint.stages if stage.id not in needs}
    order = order_of(needs)
    for stage in (blueprint.stage(stage_id) for stage_id in order):
        yield StageOutline(
            id=stage.id,
            kind=stage.kind,
            title=stage.title,
            needs=needs[stage.id],
            expect_low_seconds=expected[stage.id].low_seconds if stage.id in expected else stage.expect.low_seconds,
            expect_high_seconds=expected[stage.id].high_seconds if stage.id in expected else stage.expect.high_seconds,
            is_skipped=stage.id in skipped,
            holds_accelerators=stage.holds_accelerators,
            keeps_data=stage.keeps_data,
            charts=stage.watch.charts if stage.watch else (),
        )


def new_run_id(blueprint_id: str, clock: Clock) -> str:
    """Return an id of blueprint, month and day and 64 random bits: `bionemo-esm1nv-1121-a3f2…`. A valid label value.

    A prefix is enough to name the run, as long as no other run's id has it.
    """
    random = base64.b32encode(secrets.token_bytes(8)).decode().rstrip("=").lower()
    return f"{blueprint_id[:40]}-{clock.now():%m%d}-{random}"
