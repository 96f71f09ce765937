"""Loading: what is accepted, and where each mistake is pointed at."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.errors import BlueprintError
from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint, validate
from actions.blueprint.parts import Expectation
from actions.blueprint.stages import JobStage, TerraformStage
from tests.unit.blueprint.builders import JOB, TEXT, a_blueprint


def test_a_good_blueprint_loads(tmp_path: Path) -> None:
    blueprint = load_blueprint(a_blueprint(tmp_path / "b"))

    assert [stage.id for stage in blueprint.stages] == ["provision", "work"]
    assert isinstance(blueprint.stage("work"), JobStage)
    assert blueprint.stage("work").kind == "job"
    assert blueprint.stage("work").expect == Expectation(3600, 7200)


def test_every_shipped_blueprint_is_without_findings() -> None:
    folders = sorted(path.parent for path in shipped_blueprints().glob("*/blueprint.yaml"))

    assert folders
    assert {folder.name: [error.sentence() for error in validate(folder)] for folder in folders} == {
        folder.name: [] for folder in folders
    }


@pytest.mark.parametrize(
    ("old", "new", "said", "marked"),
    [
        ("title: Small", "titel: Small", "unknown key 'titel'", "titel"),
        ("    default: 2", "    defualt: 2", "Did you mean default?", "defualt"),
        ("type: integer", "type: int", "parameters.workers.type", "type: int"),
        ("    minimum: 1", "    minimum: one", "parameters.workers.minimum", "minimum: one"),
        ("schema: eksml/v1", "schema: small", "Write eksml/v1", "schema"),
        ("schema: eksml/v1", "schema: eksml/v9\nnews: 1", "for a newer eksml-tui: this one reads eksml/v1", "schema"),
        ("needs: [provision]", "needs: [provisoin]", "not a stage", "provisoin"),
        ("expect: 1m..2m", "expect: 2m..1m", "longer end first", "expect: 2m..1m"),
        ("expect: 1m..2m", "expect: soon", "35m..45m", "expect: soon"),
        ("kind: job\n", "kind: jobs\n", "'jobs'", "kind: jobs"),
        ("root: root", "root: nowhere", "/nowhere. Write it, or", "root: nowhere"),
        ("root: root", "root: ../..", "not a path inside", "root: ../.."),
        ("path: spec.parallelism", "path: spec.paralelism", "matches nothing", "{file"),
        ('arg: "--workers="', 'arg: "--w"', "", ""),
        ('arg: "--workers="', 'arg: "--worker-"', "matches nothing", "{file"),
        ("env: WORKERS", "env: WORKER", "matches nothing", "{file"),
        ("name: work, path: spec.p", "name: wrok, path: spec.p", "no Job named 'wrok'", "{file"),
        ("- {tfvar: size}", "- {tfvar: sice}", "no Terraform root declares the variable 'sice'", "{tfvar: sice}"),
        ("- {tfvar: size}", "- {tfvar: size, path: a}", "has no file", "{tfvar: size, path"),
        ("sum: [workers, -1]", "sum: [worker, -1]", "not defined before it", "last:"),
        ("sum: [workers, -1]", "sum: [workers, -1]\n    product: [workers]", "exactly one of", "last:"),
        ("at_most: [workers, gpus]", "at_most: [workers]", "exactly one of", "at_most"),
        ("at_most: [workers, gpus]", "unlike: [workers]", "exactly one of", "unlike"),
        ("at_most: [workers, gpus]", 'unlike: [workers, "("]', "its pattern cannot be used", "unlike"),
        ("at_most: [workers, gpus]", 'unlike: [worker, "4"]', "'worker', which is not defined", "unlike"),
        ("want more than ${gpus}", "want more than ${gpu}", "${gpu} is neither", "message"),
        ("default: 2", "default: 9", "the default of workers is not a whole number from 1 to 8", "default: 9"),
        ("minimum: 1", "minimum: 9", "minimum above its maximum", "minimum: 9"),
        ("holds: [base]", "holds: [bas]", "not among holdings", "holds"),
        ("secrets: [token]", "secrets: [tokens]", "not among secrets", "secrets"),
        ("{parameter: token,", "{parameter: workers,", "not a parameter of type secret", "token: {parameter"),
        ("from: provision.answer", "from: provision.question", "no stage before it reports", "from"),
        ("outputs: [answer]", "outputs: [answer, more]", "not an output of root", "root: root"),
        ("set: {workers: 1}", "set: {worker: 1}", "not a parameter", "worker: 1"),
        ("set: {workers: 1}", "set: {workers: 99}", "whole number from 1 to 8", "workers: 99"),
        ("roots: {provision: other}", "roots: {work: other}", "has no root", "work: other"),
        ("format: \"'x_%03d'\"", "format: \"'x_%03d%s'\"", "exactly one %s", "{file"),
        ("parameters:", "form: [workers, instance]\nparameters:", "Did you mean instance_type?", "instance]"),
        ("parameters:", "form: [workers, workers]\nparameters:", "form lists workers twice", "workers]"),
        ("parameters:", f"form: [{', '.join(['token'] * 11)}]\nparameters:", "decides 10 at most", "token]"),
        ("id: small", "id: Small_One", "is not an id", "id: Small_One"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_line(tmp_path: Path, old: str, new: str, said: str, marked: str) -> None:
    folder = a_blueprint(tmp_path / "b", (old, new))
    if not said:
        assert load_blueprint(folder).id == "small"
        return

    with pytest.raises(BlueprintError) as caught:
        load_blueprint(folder)

    assert said in caught.value.sentence()
    assert "\n" not in caught.value.sentence()
    if marked:
        line = (folder / "blueprint.yaml").read_text().splitlines()[caught.value.line - 1]
        assert marked in line[caught.value.column - 1 :]


def test_a_target_that_matches_twice_is_an_error(tmp_path: Path) -> None:
    folder = a_blueprint(tmp_path / "b", job=JOB.replace("args: [run,", "args: [run, --workers=7,"))

    with pytest.raises(BlueprintError, match="matches 2 times"):
        load_blueprint(folder)


def test_a_mistake_in_a_manifest_names_the_manifest(tmp_path: Path) -> None:
    folder = a_blueprint(tmp_path / "b", job=JOB.replace("kind: Job", "kind: [Job"))

    with pytest.raises(BlueprintError) as caught:
        load_blueprint(folder)

    assert caught.value.file.endswith("manifests/job.yaml")
    assert caught.value.line


def test_a_root_that_wants_an_unknown_variable_is_an_error(tmp_path: Path) -> None:
    folder = a_blueprint(tmp_path / "b")
    with (folder / "root" / "main.tf").open("a") as file:
        file.write('variable "surprise" { type = string }\n')

    with pytest.raises(BlueprintError, match="needs the variable 'surprise', which nothing sets"):
        load_blueprint(folder)


def test_manifests_outside_the_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text(JOB)
    folder = a_blueprint(tmp_path / "b")
    (folder / "manifests" / "job.yaml").unlink()
    (folder / "manifests" / "job.yaml").symlink_to(tmp_path / "secret.yaml")

    with pytest.raises(BlueprintError, match="not a path inside"):
        load_blueprint(folder)


def test_validate_reports_every_finding(tmp_path: Path) -> None:
    folder = a_blueprint(tmp_path / "b", ("env: WORKERS", "env: WORKER"), ("holds: [base]", "holds: [bas]"))

    assert len(validate(folder)) == 3  # the job has no way into the cluster either


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    assert "cannot be read" in validate(tmp_path)[0].sentence()


def test_a_preset_changes_roots_and_expectations(tmp_path: Path) -> None:
    quick = load_blueprint(a_blueprint(tmp_path / "b")).under("quick")
    provision = quick.stage("provision")

    assert isinstance(provision, TerraformStage)
    assert provision.root == "other"
    assert quick.stage("work").expect == Expectation(1, 2)


def test_stages_in_a_circle_are_an_error(tmp_path: Path) -> None:
    assert "{id: provision, kind: terraform," in TEXT
    folder = a_blueprint(tmp_path / "b", ("{id: provision,", "{id: provision, needs: [work],"))

    with pytest.raises(BlueprintError, match="does not come before it"):
        load_blueprint(folder)


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ("kind: job", "kind: jobb", "Did you mean job?"),
        ("kind: job", "kind: zzz", "not one of terraform, kubeconfig, manifests, helm, check, storage, network"),
        ("target: {api_version", "target: {api_versoin", "Did you mean api_version?"),
    ],
)
def test_an_unknown_kind_or_key_is_told_with_those_that_are_known(
    tmp_path: Path, old: str, new: str, hint: str
) -> None:
    (error,) = validate(a_blueprint(tmp_path / "b", (old, new)))
    assert hint in error.sentence()


def test_an_unknown_key_of_a_check_is_told_with_the_known_ones(tmp_path: Path) -> None:
    stage = "  - {id: look, kind: check, title: L, expect: 1s..2s, checks: [{check: CHECK}]}\n"
    folder = a_blueprint(
        tmp_path / "b", ("presets:", stage.replace("CHECK", "nodes, title: T, resorce: x") + "presets:")
    )
    (error,) = validate(folder)
    assert "Did you mean resource?" in error.sentence()
    folder = a_blueprint(tmp_path / "c", ("presets:", stage.replace("CHECK", "quotta, title: T") + "presets:"))
    (error,) = validate(folder)
    assert "Did you mean quota?" in error.sentence()


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ('token: {type: secret, title: Token, default: ""}',
         'token: {type: secret, title: Token, default: "", sets: [{tfvar: size}]}', "the Terraform variable size"),
        ('token: {type: secret, title: Token, default: ""}',
         'token: {type: secret, title: Token, default: "",'
         " sets: [{file: manifests/job.yaml, kind: Job, name: work, container: main, env: WORKERS}]}",
         "the Job/work container main env WORKERS in manifests/job.yaml"),
        ("usd_per_hour: 0.5}", 'usd_per_hour: 0.5, version: "${token}"}', "the text '${token}'"),
        ("sum: [workers, -1]", "choose: {by: workers, among: {}, otherwise: token}", "the derived value last"),
        ("manifests: [manifests/job.yaml]",
         "manifests: [manifests/job.yaml]\n    environment: {TOKEN: '${token}'}", "the text '${token}'"),
    ],
)  # fmt: skip
def test_a_secret_goes_nowhere_where_its_reference_is_not_resolved(
    old: str, new: str, where: str, tmp_path: Path
) -> None:
    found = [error.sentence() for error in validate(a_blueprint(tmp_path / "b", (old, new)))]
    told = [sentence for sentence in found if "is a secret" in sentence]
    assert len(told) == 1, found
    assert where in told[0]
    assert "env:NAME" in told[0]


def test_no_run_works_in_a_namespace_of_kubernetes_or_makes_one(tmp_path: Path) -> None:
    place = (
        "cluster: {name: small, region: us-west-2}",
        "cluster: {name: small, region: us-west-2, namespace: kube-system}",
    )
    with pytest.raises(BlueprintError, match="'kube-system' is a namespace of Kubernetes itself"):
        load_blueprint(a_blueprint(tmp_path / "a", place))
    choice = ("  token: {type", "  namespace: {type: text, title: N, default: kube-system}\n  token: {type")
    with pytest.raises(BlueprintError, match="'kube-system' is a namespace of Kubernetes itself"):
        load_blueprint(a_blueprint(tmp_path / "c", choice))
    namespace = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system}\n"
    with pytest.raises(BlueprintError, match="a teardown would delete it"):
        load_blueprint(a_blueprint(tmp_path / "b", job=JOB + namespace))


@pytest.mark.parametrize("amount", ["-inf", "1e9", "two", "9" * 5000])
def test_an_amount_of_a_holding_is_a_whole_number(amount: str, tmp_path: Path) -> None:
    holding = ("base: {kind: flat", f'base: {{disk_gib: "{amount}", kind: flat')
    with pytest.raises(BlueprintError, match="neither a whole number"):
        load_blueprint(a_blueprint(tmp_path / "b", holding))


def test_a_module_outside_of_its_root_is_refused_with_the_place_of_its_call(tmp_path: Path) -> None:
    folder = a_blueprint(tmp_path / "b")
    path = folder / "other" / "tags.tf"
    path.write_text('module "tags" {\n  source = "../root"\n}\n')
    with pytest.raises(BlueprintError) as caught:
        load_blueprint(folder)
    error = caught.value
    assert error.sentence() == (
        f"{path}:2: the module ../root is outside of the root other, which is copied without it. "
        "Put the module inside the root."
    )
    assert error.sentence() in [told.sentence() for told in validate(folder)]
