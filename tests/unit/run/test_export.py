"""The place that results are copied to, and the rights of the copy: decided before anything is made for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import ConfigError, ParameterError
from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.parameters import bind
from actions.blueprint.render import stage_manifests, tfvars_of
from actions.run.context.stage_context import StageContext
from actions.run.results import ExportTarget, OpenResults, export_results, export_target
from tests.support.answering import write_kubeconfig
from tests.support.smallrun import a_small_run

CLOCK = SystemClock()
MADE = {"export_service_account": "eksml-export"}
WITH_RESULTS = ("bionemo-esm1nv", "llama2-trn1-mpi", "llama2-trn1-ray", "nemo-gpt3-5b")
BLUEPRINT = """
schema: eksml/v1
id: small
title: A small run
summary: For tests.
cluster: {name: small, region: us-west-2}
parameters:
  results_bucket: {type: text, title: Export to, default: "", sets: [{tfvar: results_bucket}]}
results:
  claim: data
  mount: /data
  folder: /data/out
  export: {to: "${results_bucket}", service_account: "${provision.export_service_account}"}
stages:
  - id: provision
    kind: terraform
    title: Cluster
    expect: 1s..5s
    root: root
    own_cluster_only: true
    outputs: [export_service_account]
"""
ROOT = 'variable "results_bucket" {\n  default = ""\n}\noutput "export_service_account" {\n  value = ""\n}\n'


async def a_context(tmp_path: Path, *, bucket: str = "", outputs: Mapping[str, str] | None = None) -> StageContext:
    """The context of a run that was launched with `bucket`, and whose cluster has reported `outputs`."""
    folder = a_small_run(
        tmp_path,
        {"blueprint.yaml": BLUEPRINT, "root/main.tf": ROOT},
        kubeconfig=write_kubeconfig(tmp_path / "nobody", "http://127.0.0.1:9"),
        parameters={"results_bucket": bucket},
    )
    async with OpenResults(folder, CLOCK) as opened:
        context = opened.context
    stage = replace(context.view.stages[0], outputs=outputs)
    return replace(context, view=replace(context.view, stages=(stage,)))


async def test_a_copy_has_the_runs_role_below_the_runs_prefix_and_a_folder_of_its_own_by_default(
    tmp_path: Path,
) -> None:
    context = await a_context(tmp_path, bucket="my-models/team", outputs=MADE)
    own, run = "s3://my-models/team", context.view.id
    assert export_target(context, "", "") == ExportTarget(f"{own}/{run}", "eksml-export", granted=own)
    assert export_target(context, f"{own}/best/", "") == ExportTarget(f"{own}/best", "eksml-export", granted=own)
    assert export_target(context, own, "").address == own
    assert export_target(context, own, "").doubt == ""
    assert export_target(context, own, "").hint.startswith("The run's role may write below s3://my-models/team.")


@pytest.mark.parametrize("target", ["s3://my-models", "s3://my-models/teams", "s3://other/team/x", "s3://my-models/x"])
async def test_a_place_that_the_runs_role_may_not_write_to_is_refused_unless_a_service_account_is_named(
    tmp_path: Path, target: str
) -> None:
    context = await a_context(tmp_path, bucket="my-models/team", outputs=MADE)
    with pytest.raises(ConfigError) as refused:
        export_target(context, target, "")
    assert refused.value.message == f"{target} is not below s3://my-models/team, where alone the run's role may write."
    assert refused.value.hint.endswith("or name a service account whose role may write there.")
    named = export_target(context, target, "mine")
    assert named == ExportTarget(target, "mine")
    assert (named.doubt, "service account mine" in named.hint) == ("", True)


@pytest.mark.parametrize("bucket", ["", "my-models/team"])
@pytest.mark.parametrize("outputs", [None, {"export_service_account": ""}])
async def test_without_a_role_of_the_run_a_copy_has_the_rights_of_its_node_and_says_so(
    tmp_path: Path, bucket: str, outputs: Mapping[str, str] | None
) -> None:
    context = await a_context(tmp_path, bucket=bucket, outputs=outputs)
    target = export_target(context, "s3://theirs/x", "")
    assert target == ExportTarget("s3://theirs/x")
    assert target.doubt.endswith("name a service account whose role may.")
    assert "results_bucket=BUCKET/PREFIX" in target.hint


async def test_a_place_has_to_be_named_where_the_run_has_none(tmp_path: Path) -> None:
    context = await a_context(tmp_path, outputs=MADE)
    with pytest.raises(ConfigError, match="no place in S3 of its own") as refused:
        export_target(context, "", "")
    assert "launch with results_bucket=BUCKET/PREFIX" in refused.value.hint


async def test_a_refused_place_is_refused_before_the_cluster_is_asked(tmp_path: Path) -> None:
    context = await a_context(tmp_path)
    with pytest.raises(ConfigError, match="no place in S3 of its own"):
        await export_results(context.folder, "", CLOCK, on_line=print)


@pytest.mark.parametrize("name", WITH_RESULTS)
def test_a_blueprint_with_results_makes_the_service_account_and_hands_the_prefix_on(name: str) -> None:
    blueprint = load_blueprint(shipped_blueprints() / name)
    assert blueprint.results is not None
    assert blueprint.results.export is not None
    binding = bind(blueprint, {"results_bucket": "my-models/team"})
    outputs = {stage.id: dict.fromkeys(stage.outputs, "x") for stage in blueprint.stages}
    made = stage_manifests(blueprint, "volumes", binding, run_id="r", outputs=outputs, namespace="ml")
    accounts = [item["metadata"] for item in made if item["kind"] == "ServiceAccount"]
    assert [(item["name"], item["namespace"]) for item in accounts] == [("eksml-export", "ml")]
    given = {"namespace": "ml"}
    variables = tfvars_of(blueprint, "provision", binding, run_id="r", outputs=outputs, circumstances=given)
    assert (variables["results_bucket"], variables["namespace"]) == ("my-models/team", "ml")


@pytest.mark.parametrize("place", ["bucket", "s3://bucket/x", "Bucket/x", "bucket/", "bucket/x/*", "bucket//x"])
@pytest.mark.parametrize("name", WITH_RESULTS)
def test_a_place_of_another_form_is_refused_at_the_launch(name: str, place: str) -> None:
    with pytest.raises(ParameterError, match="results_bucket"):
        bind(load_blueprint(shipped_blueprints() / name), {"results_bucket": place})
