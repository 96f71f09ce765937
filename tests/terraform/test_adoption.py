"""A run whose disk and home are lost, adopted with what real Terraform has made: imported, unchanged, torn down.

The blueprint has the roots of a real launch, as in `tests/terraform/test_blueprints.py`; its home is a bucket of moto,
which has the states. AWS' list of what carries the run's tag, and the providers' ids for imports, follow from the lost
states, as in `tests/terraform/test_imports.py`: the stub's account is not that of moto.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.blueprint.catalogue import Catalogue, load_blueprint
from actions.blueprint.parameters import bind
from actions.cloud.eks import token_factory
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run.client import load_run
from actions.run.context.access import ClusterAccess
from actions.run.context.stage_context import StageContext
from actions.run.journal.folder import terraform_path
from actions.run.launch import create_run
from actions.run.state.view import RunState, StageState
from actions.run.takeover import adopt as adopting
from actions.run.takeover import terraform_state
from actions.run.takeover.adopt import Adoption, adopt_run
from actions.run.takeover.imports import MADE_ANEW, FoundResource, import_blocks
from actions.sandbox.locate import RunningSandbox
from tests.faults.rehearsal import CREDENTIALS, a_sandbox, begin, kill, tear_down, wait_for_run
from tests.support.account import client
from tests.support.leftover import delete_folder
from tests.support.missing import needs
from tests.support.stores import BUCKET, URL, Proxy, a_home
from tests.terraform.stub import StubAccount, provider_mirror
from tests.terraform.test_blueprints import a_blueprint, findings
from tests.terraform.test_imports import Lost, found_in, ids_of_the_stub, lost_resources

CLOCK = SystemClock()
NAME = "bionemo-esm1nv"


@pytest.fixture
def account(tmp_path: Path) -> StubAccount:
    """An empty AWS account that has the blueprints' instance types."""
    return StubAccount(tmp_path / "account", findings())


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningSandbox]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "cloud"))
    with a_sandbox("adopted", speed=60.0) as running:
        yield running


@pytest.fixture
def store() -> Iterator[Proxy]:
    with a_home() as proxy:
        yield proxy


@pytest.fixture
def provider(tmp_path: Path, account: StubAccount, terraform_environment: Mapping[str, str]) -> Path:
    """The settings by which Terraform works on the account."""
    settings = Path(terraform_environment["TF_CLI_CONFIG_FILE"]).read_text()
    mirror = provider_mirror(tmp_path / "mirror", account.folder)
    chosen = tmp_path / "terraformrc"
    chosen.write_text(
        re.sub(r'filesystem_mirror \{ path = ".*" \}', f'filesystem_mirror {{ path = "{mirror}" }}', settings)
    )
    return chosen


@pytest.fixture
def environment(
    sandbox: RunningSandbox, store: Proxy, provider: Path, monkeypatch: pytest.MonkeyPatch
) -> Mapping[str, str]:
    """The environment of all processes: the sandbox is the account, moto its S3, the stub Terraform's provider."""
    found = {
        "TF_CLI_CONFIG_FILE": str(provider),
        "AWS_ENDPOINT_URL": sandbox.process.aws_endpoint_url,
        "AWS_ENDPOINT_URL_S3": store.address,
        "AWS_REGION": "us-west-2",
        "AWS_SHARED_CREDENTIALS_FILE": str(sandbox.credentials),
    }
    for name, value in {**found, **CREDENTIALS}.items():
        monkeypatch.setenv(name, value)
    return found


def launched(folder: Path, sandbox: RunningSandbox, environment: Mapping[str, str]) -> Path:
    """A run whose roots are applied and whose training runs; its runner has died."""
    blueprint = load_blueprint(folder / NAME)
    run = create_run(
        blueprint,
        bind(blueprint, {"region": "us-west-2"}, preset="rehearsal"),
        target=ClusterTarget(),
        environment=environment,
        clock=CLOCK,
        auto_approve=True,
        store_url=URL,
    )
    runner = begin(run)
    assert runner is not None
    wait_for_run(run, lambda view: view.stage("train").state is StageState.RUNNING, "the training")
    kill(runner)
    return run


@needs("curl")
def test_a_run_without_disk_and_home_is_rebuilt_with_what_terraform_has_made(
    tmp_path: Path,
    sandbox: RunningSandbox,
    account: StubAccount,
    environment: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a_blueprint(tmp_path / "blueprints", NAME)
    run = launched(tmp_path / "blueprints", sandbox, environment)
    before, lost = load_run(run), lost_states(tmp_path / "states")
    assert set(lost) == {"network", "provision", "filesystem"}
    delete_folder(run.parent)
    delete_home()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "empty"))
    pretend_account(monkeypatch, before.id, lost)

    done = asyncio.run(adopted(sandbox, before.id, tmp_path / "blueprints", environment))
    imported = [line for line in done.sources if "resources of" in line]
    assert len(imported) == len(lost), (done.sources, done.missing)
    assert (done.view.is_rebuilt, done.view.epoch) == (True, 2)
    for stage in lost:
        planned = plan(done.folder, stage)
        assert planned.returncode == 0, planned.stdout + planned.stderr  # 2: there are changes

    tear_down(done.folder)
    after = wait_for_run(done.folder, lambda view: view.state in (RunState.TORN_DOWN, RunState.FAILED), "the teardown")
    assert after.audit is not None, [(step.id, step.state, step.message) for step in after.teardown]
    assert (after.audit.leftovers, after.audit.unknown) == ((), ())
    assert set(account.objects()) <= MADE_ANEW  # of the lost state alone: there is nothing of these in AWS


def lost_states(folder: Path) -> dict[str, list[Lost]]:
    """The resources of each stage's state, which is in the home alone."""
    folder.mkdir()
    found = {}
    for item in client("s3").list_objects_v2(Bucket=BUCKET)["Contents"]:
        if item["Key"].endswith(".tfstate"):
            stage = Path(item["Key"]).stem
            path = folder / f"{stage}.json"
            path.write_bytes(client("s3").get_object(Bucket=BUCKET, Key=item["Key"])["Body"].read())
            found[stage] = lost_resources(path)
    return found


def delete_home() -> None:
    """Delete every object of the home."""
    listed = client("s3").list_objects_v2(Bucket=BUCKET)["Contents"]
    assert len(listed) > 10
    for item in listed:
        client("s3").delete_object(Bucket=BUCKET, Key=item["Key"])


def pretend_account(patch: pytest.MonkeyPatch, run_id: str, lost: Mapping[str, list[Lost]]) -> None:
    """Let AWS list what the lost states had, and imports take the ids that the providers document."""
    every = [item for items in lost.values() for item in items]

    async def tagged(context: StageContext) -> tuple[tuple[FoundResource, ...], tuple[str, ...]]:
        assert context.view.id == run_id
        return found_in(every, run_id), ()

    def blocks(ids: Mapping[str, str]) -> str:
        return import_blocks(ids_of_the_stub(every, ids))

    patch.setattr(adopting, "tagged_resources", tagged)
    patch.setattr(terraform_state, "import_blocks", blocks)


async def adopted(sandbox: RunningSandbox, run_id: str, blueprints: Path, environment: Mapping[str, str]) -> Adoption:
    connection = await ClusterAccess(sandbox.kubeconfig, "", CLOCK, token_factory).open("")
    try:
        return await adopt_run(
            run_id,
            connection,
            None,
            CLOCK,
            catalogue=Catalogue([blueprints]),
            confirm=run_id,
            environment=environment,
        )
    finally:
        await connection.session.aclose()


def plan(run: Path, stage: str) -> subprocess.CompletedProcess[str]:
    """Plan a stage's root once more, with the variables of the run."""
    folder = terraform_path(run, stage)
    options = [
        "-input=false",
        "-no-color",
        "-detailed-exitcode",
        "-lock=false",
        f"-var-file={folder / 'run.tfvars.json'}",
    ]
    return subprocess.run(["terraform", "plan", *options], cwd=folder, capture_output=True, text=True, check=False)
