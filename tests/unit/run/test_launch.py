"""The things that a launch looks for, and the cluster that a run will work in."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from actions.base import files
from actions.base.clock import SystemClock
from actions.base.errors import BlueprintError, ConfigError, ConflictError, RefusedError
from actions.base.files import shipped_blueprints, take_lock
from actions.blueprint.catalogue import load_blueprint, validate
from actions.blueprint.model import Blueprint, Parameter, ParameterType
from actions.blueprint.parameters import bind
from actions.blueprint.render import namespace_note
from actions.blueprint.source_files import git_modules
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run import launch
from actions.run.client import list_runs, load_run
from actions.run.doctor.examine import planned
from actions.run.journal.folder import load_environment
from actions.run.launch import LaunchOrder, create_run, one_at_a_time
from actions.run.store.files import launched_archive, unpack_launched
from tests.support.answering import write_kubeconfig

WITHOUT_ACCESS = """
schema: eksml/v1
id: lost
title: A run without access
summary: For tests.
cluster: {name: bionemo-on-eks, region: us-west-2, namespace: default}
stages:
  - {id: objects, kind: manifests, title: Objects, expect: 1s..5s, manifests: [objects.yaml]}
"""


@pytest.fixture(autouse=True)
def _a_machine_with_terraform_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "terraform").touch(mode=0o755)


def launched(home: Path, *, preset: str = "rehearsal", existing_cluster: bool = False, **options: object) -> Path:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    given = {name: str(value) for name, value in options.items() if name not in ("target", "environment")}
    target, environment = options.get("target", ClusterTarget()), options.get("environment", {})
    assert isinstance(target, ClusterTarget)
    assert isinstance(environment, dict)
    return create_run(
        LaunchOrder(
            blueprint,
            bind(blueprint, given, preset=preset, existing_cluster=existing_cluster),
            target=target,
            environment=environment,
            clock=SystemClock(),
            base=home / "runs",
        )
    )


def launched_after(home: Path, require: Callable[[], None]) -> Path:
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    return create_run(
        LaunchOrder(
            blueprint,
            bind(blueprint, {}, preset="rehearsal", existing_cluster=False),
            target=ClusterTarget(),
            environment={},
            clock=SystemClock(),
            base=home / "runs",
        ),
        require=require,
    )


def test_a_program_that_is_missing_is_told_before_there_is_a_run(tmp_path: Path) -> None:
    (tmp_path / "terraform").unlink()
    with pytest.raises(ConfigError, match="needs Terraform for network: The terraform program is not on PATH"):
        launched(tmp_path)
    assert not (tmp_path / "runs").exists()


def test_no_run_works_in_a_namespace_of_kubernetes(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="'kube-system' is a namespace of Kubernetes itself"):
        launched(tmp_path, target=ClusterTarget(namespace="kube-system"))
    assert not (tmp_path / "runs").exists()


def test_a_secret_that_is_missing_is_told_before_there_is_a_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ngc_api_key refers to a secret: env:NO_SUCH_KEY"):
        launched(tmp_path, ngc_api_key="env:NO_SUCH_KEY")
    assert not (tmp_path / "runs").exists()


def test_a_stage_without_a_way_into_its_cluster_is_refused_as_validate_refuses_it(tmp_path: Path) -> None:
    source = tmp_path / "lost"
    source.mkdir()
    (source / "objects.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n")
    (source / "blueprint.yaml").write_text(WITHOUT_ACCESS)
    blueprint = load_blueprint(source)
    with pytest.raises(
        BlueprintError, match="objects works in the cluster, but needs no stage of kind kubeconfig"
    ) as error:
        create_run(
            LaunchOrder(
                blueprint,
                bind(blueprint, {}, existing_cluster=True),
                target=ClusterTarget(write_kubeconfig(tmp_path / "here", "https://here.example")),
                environment={},
                clock=SystemClock(),
                base=tmp_path / "runs",
            )
        )
    assert [error.value.sentence()] == [problem.sentence() for problem in validate(source)]
    assert not (tmp_path / "runs").exists()


def test_a_run_that_makes_its_cluster_never_works_in_the_one_that_was_looked_at(tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "prod", "https://prod.example")
    cluster = load_run(launched(tmp_path, target=ClusterTarget(kubeconfig, "here"))).cluster
    assert (cluster.context, cluster.kubeconfig) == ("", "")


def test_a_run_in_the_present_cluster_keeps_to_it_when_the_current_context_changes(tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "prod", "https://prod.example")
    folder = launched(tmp_path, existing_cluster=True, target=ClusterTarget(kubeconfig))
    cluster = load_run(folder).cluster
    assert (cluster.context, cluster.kubeconfig) == ("here", str(kubeconfig))
    assert cluster.name == "here", "the cluster that it is really on, whatever its parameter cluster_name is"


def test_name_and_region_of_the_present_cluster_are_those_of_its_arn(tmp_path: Path) -> None:
    arn = "arn:aws:eks:eu-west-1:111122223333:cluster/prod"
    kubeconfig = write_kubeconfig(tmp_path / "prod", "https://prod.example")
    kubeconfig.write_text(kubeconfig.read_text().replace("here", arn).replace(f"https://{arn}", "https://here"))
    cluster = load_run(launched(tmp_path, existing_cluster=True, target=ClusterTarget(kubeconfig))).cluster
    assert (cluster.name, cluster.region, cluster.context) == ("prod", "eu-west-1", arn)


def test_a_run_in_the_present_cluster_finds_it_by_the_variable_that_named_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "prod", "https://prod.example")
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    folder = launched(tmp_path, existing_cluster=True)
    assert load_run(folder).cluster.context == "here"
    assert load_environment(folder)["KUBECONFIG"] == str(kubeconfig)


def test_a_run_in_a_cluster_that_was_not_named_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="There is no kubeconfig"):
        launched(tmp_path, existing_cluster=True)


def test_credentials_are_not_stored_and_that_there_are_none_is(tmp_path: Path) -> None:
    given = {"AWS_SECRET_ACCESS_KEY": "CANARY", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "default"}
    folder = launched(tmp_path, environment=given)
    stored = json.loads((folder / "environment.json").read_text())
    assert stored == {"AWS_SESSION_TOKEN": "", "AWS_PROFILE": "default", "EKSML_TERRAFORM_PROGRAM": "terraform"}


def test_a_run_stays_with_the_aws_that_it_was_launched_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9/aws")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9/s3")
    kept = load_environment(launched(tmp_path))
    assert (kept["AWS_ENDPOINT_URL"], kept["AWS_ENDPOINT_URL_S3"]) == (
        "http://127.0.0.1:9/aws",
        "http://127.0.0.1:9/s3",
    )


def test_a_run_keeps_what_its_blueprint_shares_with_others(tmp_path: Path) -> None:
    copy = launched(tmp_path) / "blueprint" / "common"
    assert (copy / "cluster.yaml").is_file()
    assert not (copy / "neuron.yaml").exists()
    assert (copy / "manifests" / "dcgm-exporter.yaml").is_file()
    assert (copy / "terraform" / "network" / "main.tf").is_file()
    assert (copy / "rehearsal" / "cluster" / "simulation.json").is_file()
    assert not (copy / "terraform" / "nodes").exists()


def an_own(home: Path) -> Blueprint:
    """A blueprint beside a folder `common` of which a component is a link to another version."""
    own = home / "own" / "small"
    shutil.copytree(shipped_blueprints() / "bionemo-esm1nv", own)
    text = (shipped_blueprints() / "common" / "cluster.yaml").read_text()
    (home / "own" / "common").mkdir()
    (home / "own" / "common" / "cluster-v2.yaml").write_text(text.replace("title: Cluster name", "title: Mine"))
    (home / "own" / "common" / "cluster.yaml").symlink_to("cluster-v2.yaml")
    return load_blueprint(own)


def copied(blueprint: Blueprint, home: Path) -> Blueprint:
    """The copy that a run of a blueprint has."""
    binding = bind(blueprint, {}, preset="rehearsal", existing_cluster=False)
    options: dict[str, Any] = {"target": ClusterTarget(), "environment": {}, "clock": SystemClock()}
    return load_blueprint(create_run(LaunchOrder(blueprint, binding, base=home / "runs", **options)) / "blueprint")


def test_a_component_that_is_a_link_keeps_its_name_in_the_copy(tmp_path: Path) -> None:
    assert copied(an_own(tmp_path), tmp_path).parameters["cluster_name"].title == "Mine"


def test_programs_of_a_blueprint_stay_programs_in_its_copy_here_and_elsewhere(tmp_path: Path) -> None:
    blueprint = an_own(tmp_path)
    for name, mode in (("prepare.sh", 0o755), ("notes.sh", 0o644)):
        (blueprint.folder / name).touch()
        (blueprint.folder / name).chmod(mode)
    here, elsewhere = copied(blueprint, tmp_path).folder, tmp_path / "elsewhere"
    unpack_launched(launched_archive(here.parent), elsewhere)
    for copy in (here, elsewhere / "blueprint"):
        modes = [(copy / name).stat().st_mode & 0o777 for name in ("prepare.sh", "notes.sh")]
        assert modes == [0o700, 0o600], copy


def link(folder: Path, to: str) -> None:
    (folder / "real").mkdir()
    (folder / "data").symlink_to(to)


def enlarge(folder: Path) -> None:
    (folder / "data.bin").touch()
    os.truncate(folder / "data.bin", 17 << 20)


UNCOPYABLE: list[Any] = [
    pytest.param(lambda folder: link(folder, "real"), "/data: it links to a folder. Copy the folder", id="a folder"),
    pytest.param(
        lambda folder: link(folder, "/etc/passwd"), "/data: it links to a file outside of small. Copy", id="a file"
    ),
    pytest.param(enlarge, "/small: its files have more than 16 MiB, which is the limit", id="its size"),
]


@pytest.mark.parametrize(("change", "words"), UNCOPYABLE)
def test_what_cannot_be_copied_is_refused_before_a_launch_and_by_it(
    tmp_path: Path, change: Callable[[Path], None], words: str
) -> None:
    blueprint = an_own(tmp_path)
    change(blueprint.folder)
    with pytest.raises(BlueprintError) as launched:
        copied(blueprint, tmp_path)
    told = launched.value.sentence()
    assert words in told
    assert [error.sentence() for error in validate(blueprint.folder)] == [told]
    with pytest.raises(BlueprintError) as loaded:
        load_blueprint(blueprint.folder)
    assert loaded.value.sentence() == told
    assert list((tmp_path / "runs").iterdir()) == [tmp_path / "runs" / ".launching"]


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("title: Mine", "title: Other", "it is not the one that was read"),
        ("parameters:", "parameter:", "a component has no key 'parameter'"),
    ],
)
def test_a_copy_of_what_was_not_read_is_no_run(tmp_path: Path, before: str, after: str, why: str) -> None:
    blueprint = an_own(tmp_path)
    path = tmp_path / "own" / "common" / "cluster-v2.yaml"
    path.write_text(path.read_text().replace(before, after))
    with pytest.raises(ConflictError, match=rf"small has changed while it was copied: {why}"):
        copied(blueprint, tmp_path)
    assert list_runs(tmp_path / "runs") == []
    assert not any(path.is_dir() for path in (tmp_path / "runs").iterdir())


def test_git_is_missed_before_there_is_a_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs the git program for network") as error:
        launched(tmp_path, preset="")
    assert "terraform-aws-modules/vpc/aws" in error.value.message
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("source", "is_by_git"),
    [
        ("terraform-aws-modules/eks/aws//modules/karpenter", True),
        ("registry.terraform.io/terraform-aws-modules/vpc/aws", True),
        ("git::https://git.example/x.git?ref=v1", True),
        ("git@git.example:x.git", True),
        ("github.com/example/x", True),
        ("./nodes", False),
        ("../shared/nodes", False),
        ("/opt/modules/vpc/aws", False),
        ("https://modules.example/vpc.zip", False),
        ("s3::https://s3.amazonaws.com/bucket/vpc.zip", False),
        ("terraform.example/platform/vpc/aws", False),
    ],
)
def test_modules_that_git_fetches_are_known_by_their_source(tmp_path: Path, source: str, is_by_git: bool) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "main.tf").write_text(f'module "m" {{\n  count  = 1\n  source = "{source}"\n}}\n')
    assert git_modules(tmp_path, "root") == ((source,) if is_by_git else ())


def test_a_launch_looks_for_other_runs_when_the_one_before_it_has_made_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    is_waiting = threading.Event()

    def tried(descriptor: int) -> bool:
        is_locked = take_lock(descriptor)
        if not is_locked:
            is_waiting.set()
        return is_locked

    def look() -> None:
        seen.append(len(list_runs(tmp_path / "runs")))
        if len(seen) == 1:  # the other one is begun while this one is between its look and its folder
            second.start()
            assert is_waiting.wait(60)

    monkeypatch.setattr(files, "take_lock", tried)
    second = threading.Thread(target=lambda: launched_after(tmp_path, look))
    launched_after(tmp_path, look)
    second.join()
    assert seen == [0, 1]


def test_what_refuses_a_launch_at_the_last_moment_leaves_nothing(tmp_path: Path) -> None:
    def refuse() -> None:
        raise RefusedError("Another run is there.")

    with pytest.raises(RefusedError, match="Another run is there"):
        launched_after(tmp_path, refuse)
    assert list_runs(tmp_path / "runs") == []


def test_a_launch_that_does_not_come_to_its_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_LOCK_SECONDS", 0.1)
    with one_at_a_time(tmp_path / "runs"), pytest.raises(RefusedError, match="Another launch on this machine, by"):
        launched(tmp_path)
    launched(tmp_path)  # the lock has gone with the other


def test_a_launch_goes_into_the_namespace_of_option_parameter_context_or_blueprint_in_this_order(
    tmp_path: Path,
) -> None:
    chosen = {"namespace": Parameter(type=ParameterType.TEXT, title="Namespace", default="own")}
    blueprint = replace(load_blueprint(shipped_blueprints() / "bionemo-esm1nv"), rules=())
    blueprint = replace(blueprint, parameters=blueprint.parameters | chosen)
    here = write_kubeconfig(tmp_path / "prod", "https://prod.example")
    plain = ClusterTarget(here)
    text = here.read_text().replace('"user": "me"}}]', '"user": "me", "namespace": "of-context"}}]')
    named = ClusterTarget(tmp_path / "named")
    (tmp_path / "named").write_text(text)

    def home(target: ClusterTarget, *, existing_cluster: bool = True, **given: str) -> tuple[str, str]:
        binding = bind(blueprint, given, existing_cluster=existing_cluster)
        return planned(blueprint, binding, target).namespace, namespace_note(blueprint, binding, target)

    assert home(plain)[0] == "own", "a context without one is not the namespace default"
    assert home(named) == ("of-context", "The run's objects go into the namespace of-context.")
    assert home(named, namespace="of-parameter")[0] == "of-parameter"
    assert home(replace(named, namespace="of-option"), namespace="of-parameter")[0] == "of-option"
    assert home(ClusterTarget(tmp_path / "none"))[0] == "own"
    assert home(named, existing_cluster=False) == ("own", ""), "its own cluster has nothing of the present context"

    run = launched(tmp_path, existing_cluster=True, target=named)
    assert load_run(run).cluster.namespace == "of-context"
    assert load_run(launched(tmp_path, target=named)).cluster.namespace == "default"
