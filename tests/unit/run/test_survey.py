"""The doctor's checks within seconds: what they ask, in which order lines come, and what happens without an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import RefusedError
from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.parameters import bind
from actions.blueprint.parts import Scalar
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run.checks.external import SessionPool, aws_session, pooled
from actions.run.doctor import survey as surveys
from actions.run.doctor.account import Caller
from actions.run.doctor.examine import planned
from actions.run.doctor.names import require_no_other_run
from actions.run.doctor.report import DoctorLine
from actions.run.doctor.survey import LaunchSurvey
from actions.run.state.records import CheckResult
from actions.run.state.view import OwnedObject, RunState
from tests.support import fixed_runs
from tests.support.account import REGION, an_account, client
from tests.support.answering import write_kubeconfig
from tests.support.polling import until

PATIENCE_SECONDS = 60.0
DEFAULT = ClusterTarget(namespace="default")


def a_survey(
    pool: SessionPool,
    name: str = "nemo-gpt3-5b",
    *,
    preset: str = "",
    existing_cluster: bool = False,
    target: ClusterTarget | None = None,
    with_capacity: bool = False,
    **values: Scalar,
) -> LaunchSurvey:
    blueprint = load_blueprint(shipped_blueprints() / name)
    bound = bind(blueprint, values, preset=preset, existing_cluster=existing_cluster)
    return LaunchSurvey(
        target or ClusterTarget(), blueprint, bound, clock=SystemClock(), pool=pool, with_capacity=with_capacity
    )


@pytest.fixture
def pool() -> Iterator[SessionPool]:
    made = SessionPool()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _empty_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No program, no mirror, no credentials, no kubeconfig; every address of the internet is refused at once."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "no-programs"))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with an_account() as address:
        yield address


@pytest.fixture
def account(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")


def by_name(survey: LaunchSurvey) -> dict[str, DoctorLine]:
    return {line.check: line for line in survey.lines}


async def test_a_rehearsal_asks_this_machine_alone(pool: SessionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_region: str) -> Caller:
        raise AssertionError("it asked")

    monkeypatch.setattr(surveys, "fetch_caller", fail)
    survey = a_survey(pool, preset="rehearsal")
    await survey.run()
    assert ([line.check for line in survey.lines], survey.waiting) == (["other runs", "kept data"], ())


async def test_without_credentials_the_account_is_one_unknown_line(pool: SessionPool) -> None:
    survey = a_survey(pool, ngc_api_key="env:NGC_API_KEY")
    await survey.run(seconds=PATIENCE_SECONDS)
    lines = by_name(survey)
    assert lines["credentials"].result is CheckResult.UNKNOWN
    assert not lines["credentials"].blocks
    assert {name for name, line in lines.items() if line.blocks} == {
        "terraform",
        "Terraform modules",
        "operator mpi-operator",
        "operator training-operator",
        "image of image",
    }
    assert not any(name.startswith(("name of", "rights of", "capacity")) for name in lines)


@pytest.mark.usefixtures("account")
async def test_with_credentials_names_quotas_and_rights_are_asked_for(pool: SessionPool) -> None:
    role = client("iam").create_role(RoleName="surveyed", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    client("eks").create_cluster(name="surveyed", roleArn=role, resourcesVpcConfig={"subnetIds": []})
    said: list[int] = []
    survey = a_survey(pool, region=REGION, cluster_name="surveyed", with_capacity=True)
    await survey.run(lambda: said.append(len(survey.lines)), seconds=PATIENCE_SECONDS)
    lines = by_name(survey)
    assert lines["name of EKS cluster"].blocks
    assert lines["VPCs"].result is CheckResult.PASSED
    assert {"credentials", "rights of launch.json", "rights of teardown.json", "capacity of capacity"} <= set(lines)
    assert all(line.remedy for line in survey.lines if line.result is not CheckResult.PASSED)
    assert said == sorted(said), "lines are added one by one, and none is taken back"
    assert len(said) > len(lines) / 2
    # the same client answers all: credentials are read once
    assert list(pool._sessions) == [REGION]


@pytest.mark.usefixtures("account")
async def test_what_does_not_answer_is_unknown_and_named(pool: SessionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_region: str) -> Caller:
        await asyncio.Event().wait()
        raise AssertionError("it is cancelled")

    monkeypatch.setattr(surveys, "fetch_caller", never)
    survey = a_survey(pool, region=REGION)
    running = asyncio.create_task(survey.run(seconds=PATIENCE_SECONDS))
    await until(lambda: survey.waiting == ("credentials",), "the only question without an answer")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    survey = a_survey(pool, region=REGION)
    await survey.run(seconds=0.05)
    line = by_name(survey)["credentials"]
    assert (line.result, line.detail) == (CheckResult.UNKNOWN, "No answer within 0.05 s.")
    assert line.remedy == "Run eksml-tui doctor nemo-gpt3-5b, which waits longer."
    assert survey.waiting == ()


async def test_a_launch_into_a_cluster_asks_that_cluster(pool: SessionPool, tmp_path: Path) -> None:
    target = ClusterTarget(write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:9"))
    survey = a_survey(pool, "bionemo-esm1nv", existing_cluster=True, target=target)
    await survey.run(seconds=PATIENCE_SECONDS)
    lines = by_name(survey)
    assert lines["cluster"].blocks
    assert lines["rights"].result is CheckResult.UNKNOWN
    own = a_survey(pool, "bionemo-esm1nv", target=target)
    await own.run(seconds=PATIENCE_SECONDS)
    assert "cluster" not in by_name(own)


@pytest.mark.parametrize(
    ("broken", "check"), [("operator_questions", "operators"), ("cluster_questions", "cluster questions")]
)
async def test_questions_that_cannot_be_made_are_one_unknown_line_and_take_no_other_away(
    broken: str, check: str, pool: SessionPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = ClusterTarget(write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:9"))
    whole = a_survey(pool, "bionemo-esm1nv", existing_cluster=True, target=target)
    await whole.run(seconds=PATIENCE_SECONDS)

    def refuse(*_: object, **__: object) -> None:
        raise RefusedError("The root cannot be read.")

    monkeypatch.setattr(surveys, broken, refuse)
    survey = a_survey(pool, "bionemo-esm1nv", existing_cluster=True, target=target)
    await survey.run(seconds=PATIENCE_SECONDS)
    line = by_name(survey)[check]
    assert (line.result, line.detail) == (CheckResult.UNKNOWN, "The root cannot be read.")
    assert line.remedy.startswith("Run eksml-tui validate ")
    part = surveys._Part[check.upper().replace(" ", "_")]
    assert {place for place in whole._found if place[0] is not part} <= survey._found.keys()
    assert survey.waiting == ()


async def test_an_error_in_groups_within_groups_is_a_line_after_those_of_its_part(pool: SessionPool) -> None:
    async def fail() -> None:
        raise ExceptionGroup("", [ExceptionGroup("", [ExceptionGroup("", [RefusedError("No.", hint="Ask.")])])])

    survey = a_survey(pool)
    for _ in range(2):
        await survey._guarded(surveys._Part.ACCOUNT, fail())
    assert [(line.check, line.detail, line.remedy) for line in survey.lines] == [("account", "No.", "Ask.")] * 2


async def test_sessions_are_those_of_the_pool_only_inside_of_it(pool: SessionPool) -> None:
    with pooled(pool):
        async with aws_session(REGION) as first, aws_session(REGION) as second:
            assert first is second
    async with aws_session(REGION) as other:
        assert other is not first


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bionemo-esm1nv", "The run bionemo-esm1nv-1121-k3v7q2mzxa4pe of this blueprint, running, is in default"),
        ("nemo-gpt3-5b", "The run bionemo-esm1nv-1121-k3v7q2mzxa4pe, running, has made a cluster bionemo-on-eks"),
    ],
)
async def test_the_form_of_a_rehearsal_sees_a_run_that_is_in_its_place(
    name: str, said: str, pool: SessionPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    view = fixed_runs.a_training_run()
    view = replace(view, is_cost_simulated=True, cluster=replace(view.cluster, namespace="default"))
    monkeypatch.setattr("actions.run.doctor.names.list_runs", lambda _home: fixed_runs.summaries(tmp_path)[:1])
    monkeypatch.setattr("actions.run.doctor.names.load_run", lambda _folder: view)
    blueprint = load_blueprint(shipped_blueprints() / name)
    bound = bind(blueprint, {"cluster_name": "bionemo-on-eks"}, preset="rehearsal", existing_cluster=False)
    target = ClusterTarget(namespace="default")
    survey = LaunchSurvey(target, blueprint, bound, clock=SystemClock(), pool=pool, is_simulated=True)
    await survey.run()
    line, kept = survey.lines
    assert kept.check == "kept data"
    assert line.result is CheckResult.FAILED
    assert line.detail.startswith(said)
    assert line.blocks
    with pytest.raises(RefusedError) as refusal:  # the launch itself, as of a script
        require_no_other_run(planned(blueprint, bound, DEFAULT))
    assert (refusal.value.message, refusal.value.hint) == (line.detail, line.remedy)
    require_no_other_run(planned(blueprint, bound, DEFAULT), waived=["other runs"])


@pytest.mark.parametrize(
    ("name", "ways"),
    [
        (
            "bionemo-esm1nv",
            [
                "or delete its job: kubectl delete -n default pytorchjob/",
                "use its cluster: --existing-cluster, and waive this check",
            ],
        ),
        ("nemo-gpt3-5b", ["or use its cluster: --existing-cluster", "or choose another cluster_name"]),
    ],
)
async def test_a_run_that_is_over_refuses_too_while_its_objects_are_there(
    name: str, ways: list[str], pool: SessionPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    view = replace(fixed_runs.a_failed_run(), is_cost_simulated=True)
    job = OwnedObject(
        "train", "kubeflow.org/v1", "PyTorchJob", "default", "esm1nv", "uid-1", existed=False, is_deleted=False
    )
    view = replace(view, owned=(*view.owned, job))
    view = replace(view, cluster=replace(view.cluster, namespace="default"), state=RunState.FAILED)
    over = [replace(run, state=RunState.FAILED) for run in fixed_runs.summaries(tmp_path)[:1]]
    monkeypatch.setattr("actions.run.doctor.names.list_runs", lambda _home: over)
    monkeypatch.setattr("actions.run.doctor.names.load_run", lambda _folder: view)
    blueprint = load_blueprint(shipped_blueprints() / name)
    bound = bind(blueprint, {"cluster_name": "bionemo-on-eks"}, preset="rehearsal", existing_cluster=False)
    target = ClusterTarget(namespace="default")
    survey = LaunchSurvey(target, blueprint, bound, clock=SystemClock(), pool=pool, is_simulated=True)
    await survey.run()
    line, kept = survey.lines
    assert kept.check == "kept data"
    assert line.blocks
    for way in ways:
        assert way in line.remedy
    assert "namespace with -n" not in line.remedy, "node groups and volumes collide in any namespace"
    with pytest.raises(RefusedError):
        require_no_other_run(planned(blueprint, bound, DEFAULT))
    monkeypatch.setattr("actions.run.doctor.names.load_run", lambda _folder: replace(view, owned=(), stages=()))
    require_no_other_run(planned(blueprint, bound, DEFAULT))  # it came to nothing: it is in nobody's way
    inside = bind(blueprint, {"cluster_name": "bionemo-on-eks"}, preset="rehearsal", existing_cluster=True)
    without_jobs = replace(view, owned=())
    monkeypatch.setattr("actions.run.doctor.names.load_run", lambda _folder: without_jobs)
    require_no_other_run(planned(blueprint, inside, DEFAULT))  # its cluster is used, and no job of it is left
