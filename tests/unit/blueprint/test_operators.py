"""An operator's release of several files becomes one, as its kustomization would make it, without kubectl and helm."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import yaml

from actions.base.clock import SystemClock
from actions.base.errors import BlueprintError, ConflictError, FormatError
from actions.base.files import asset, shipped_blueprints
from actions.blueprint.catalogue import load_blueprint, validate
from actions.blueprint.mirror import Basis, Mirror
from actions.blueprint.operators import built_manifest, digest_of, operator_manifests
from actions.blueprint.parameters import bind
from actions.blueprint.render import stage_manifests
from actions.blueprint.stages import FieldChange, ManifestsStage, Source
from tests.support.definitions import recorded_definitions
from tests.support.missing import needs
from tests.unit.blueprint.builders import a_blueprint

ACCOUNT = b"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: gang}\n"
ROLES = b"""\
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: gang}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: gang}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gang}
subjects: [{kind: ServiceAccount, name: gang}]"""
MANAGER = b"""\
apiVersion: apps/v1
kind: Deployment
metadata: {name: gang, namespace: system, annotations: {port: "8080", "on": "1e3", since: "2024-01-01"}}
spec:
  replicas: 1
  selector: {matchLabels: {app: gang}}
  template:
    metadata: {labels: {app: gang}}
    spec:
      serviceAccountName: gang
      initContainers: [{name: first, image: example/gang}]
      containers: [{name: gang, image: example/gang}, {name: other, image: example/other}]
"""
WEBHOOK = b"""\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: webhooks}
webhooks:
  - name: jobs.gang.example
    admissionReviewVersions: [v1]
    sideEffects: None
    clientConfig: {service: {name: webhook, namespace: system, path: /jobs}}
"""
KUSTOMIZATION = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: gangs
resources: [account.yaml, rbac/roles.yaml, manager.yaml, webhook.yaml]
images: [{name: example/gang, newName: quay.io/gang, newTag: v2}]
configurations: [fields.yaml]
patches:
  - target: {kind: ValidatingWebhookConfiguration}
    patch: |-
      - {op: replace, path: /webhooks/0/clientConfig/service/name, value: gang}
      - {op: replace, path: /metadata/name, value: gang.example}
"""
FIELDS = """\
namespace:
  - {kind: ValidatingWebhookConfiguration, path: webhooks/clientConfig/service/namespace, create: true}
"""
FILES = {"account.yaml": ACCOUNT, "rbac/roles.yaml": ROLES, "manager.yaml": MANAGER, "webhook.yaml": WEBHOOK}
HOOKS = {"kind": "ValidatingWebhookConfiguration", "name": "webhooks"}


def a_release(**changes: object) -> Source:
    source = Source(
        name="gang",
        version="2.0.0",
        url="https://example.invalid/config/",
        sha256="",
        files={file: digest_of(data) for file, data in FILES.items()},
        namespace="gangs",
        images={"example/gang": "quay.io/gang:v2"},
        changes=(
            FieldChange(**HOOKS, path="webhooks[0].clientConfig.service.name", value="gang"),
            FieldChange(**HOOKS, path="metadata.name", value="gang.example"),
        ),
    )
    return msgspec.structs.replace(source, **changes)


def by_name(text: str) -> dict[tuple[str, str], Any]:
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text)}


@needs("kubectl")
def test_it_is_what_kustomize_makes_of_the_same_files(tmp_path: Path) -> None:
    for file, data in {**FILES, "kustomization.yaml": KUSTOMIZATION.encode(), "fields.yaml": FIELDS.encode()}.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_bytes(data)
    made = subprocess.run(["kubectl", "kustomize", str(tmp_path)], capture_output=True, text=True, check=True).stdout
    assert by_name(built_manifest(a_release(), FILES).decode()) == by_name(made)


PREFIXED = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: gangs
namePrefix: gang-
resources: [account.yaml, rbac/roles.yaml, manager.yaml, webhook.yaml, parts.yaml]
images: [{name: example/gang, newName: quay.io/gang, newTag: v2}]
configurations: [fields.yaml]
patches:
  - target: {kind: Deployment}
    patch: '[{"op": "add", "path": "/spec/template/spec/volumes", "value": VOLUMES}]'
  - target: {kind: ValidatingWebhookConfiguration}
    patch: '[{"op": "add", "path": "/webhooks/0/objectSelector", "value": SELECTOR}]'
"""
NAMES = """\
nameReference:
  - kind: Service
    version: v1
    fieldSpecs: [{kind: ValidatingWebhookConfiguration, path: webhooks/clientConfig/service/name}]
"""
PARTS = b"""\
apiVersion: v1
kind: Namespace
metadata: {name: system}
---
apiVersion: v1
kind: Service
metadata: {name: webhook}
spec: {ports: [{port: 443}]}
---
apiVersion: v1
kind: Secret
metadata: {name: cert}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gangs.gang.example}
spec: {group: gang.example, names: {kind: Gang, plural: gangs}, scope: Namespaced, versions: []}
"""
VOLUMES = [
    {"name": "cert", "secret": {"secretName": "gang-cert"}},
    {"name": "theirs", "secret": {"secretName": "other"}},
]
SELECTOR = {"matchExpressions": [{"key": "gang", "operator": "Exists"}]}


@needs("kubectl")
def test_names_get_the_prefix_that_kustomize_gives_them(tmp_path: Path) -> None:
    kustomization = PREFIXED
    for name, value in (("VOLUMES", VOLUMES), ("SELECTOR", SELECTOR)):
        kustomization = kustomization.replace(name, msgspec.json.encode(value).decode())
    files = {**FILES, "parts.yaml": PARTS}
    written = {**files, "kustomization.yaml": kustomization.encode(), "fields.yaml": (FIELDS + NAMES).encode()}
    for file, data in written.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_bytes(data)
    made = subprocess.run(["kubectl", "kustomize", str(tmp_path)], capture_output=True, text=True, check=True).stdout
    release = a_release(
        files={file: digest_of(data) for file, data in files.items()},
        prefix="gang-",
        changes=(
            FieldChange(kind="Deployment", name="gang-gang", path="spec.template.spec.volumes", value=VOLUMES),
            FieldChange(kind=HOOKS["kind"], name="gang-webhooks", path="webhooks[0].objectSelector", value=SELECTOR),
        ),
    )
    assert by_name(built_manifest(release, files).decode()) == by_name(made)


def test_texts_that_look_like_numbers_stay_texts(tmp_path: Path) -> None:
    Mirror(tmp_path).take_files(a_release(), FILES, origin="x", clock=SystemClock())
    (manager,) = (each for each in operator_manifests(a_release(), [tmp_path]) if each["kind"] == "Deployment")
    assert manager["metadata"]["annotations"] == {"port": "8080", "on": "1e3", "since": "2024-01-01"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"images": {"example/none": "x"}}, "No container of gang 2.0.0 uses the image example/none"),
        ({"changes": (FieldChange(**HOOKS, path="webhooks[7].name", value="x"),)}, "matches nothing"),
        ({"changes": (FieldChange(**HOOKS, path="webhooks[0].rules", value="x"),)}, "matches nothing"),
        ({"changes": (FieldChange(**HOOKS, path="webhooks[0].rules.last", value=[]),)}, "matches nothing"),
        ({"changes": (FieldChange(kind="Service", name="gang", path="spec", value="x"),)}, "no Service named 'gang'"),
    ],
)
def test_a_step_that_finds_nothing_is_refused(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    with pytest.raises(FormatError, match=said):
        Mirror(tmp_path).take_files(a_release(**changes), FILES, origin="x", clock=SystemClock())
    assert not list(tmp_path.rglob("manifest.yaml"))


def test_each_file_has_to_be_the_one_that_is_recorded(tmp_path: Path) -> None:
    changed = {**FILES, "manager.yaml": MANAGER + b"\n"}
    with pytest.raises(ConflictError, match=r"manager\.yaml of gang/2\.0\.0 has the sha256"):
        Mirror(tmp_path).take_files(a_release(), changed, origin="x", clock=SystemClock())
    assert not list(tmp_path.rglob("manifest.yaml"))


def test_what_was_made_by_other_steps_is_none_of_this_release(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path)
    mirror.take_files(a_release(), FILES, origin="x", clock=SystemClock())
    held = mirror.held(a_release())
    assert held is not None
    assert held.basis is Basis.RECORDED
    assert mirror.held(a_release(namespace="elsewhere")) is None
    mirror.take_files(a_release(namespace="elsewhere"), FILES, origin="x", clock=SystemClock())
    assert mirror.held(a_release(namespace="elsewhere")) is not None


def test_a_release_of_several_megabytes_is_read(tmp_path: Path) -> None:
    """`kubectl kustomize` of training-operator 1.8.1 prints 3.3 MB."""
    long = b"".join(
        b"apiVersion: v1\nkind: Namespace\nmetadata: {name: n%d}\n# %s\n---\n" % (n, b"x" * 999_999) for n in range(3)
    )
    source = a_release(files={}, namespace="", images={}, changes=())
    Mirror(tmp_path).take(source, long, origin="by hand", by_hand=True, clock=SystemClock())
    assert len(operator_manifests(source, [tmp_path])) == 3


def test_objects_of_the_stage_give_way_to_those_of_the_release(tmp_path: Path) -> None:
    """A mirror that was made by kubectl kustomize holds the namespace; one that was made here does not."""
    blueprint = load_blueprint(shipped_blueprints() / "bionemo-esm1nv")
    stage = blueprint.stage("operators")
    assert isinstance(stage, ManifestsStage)
    assert stage.source is not None
    theirs = b"apiVersion: v1\nkind: Namespace\nmetadata: {name: kubeflow, labels: {made: theirs}}\n"
    Mirror(tmp_path).take(stage.source, theirs, origin="by hand", by_hand=True, clock=SystemClock())
    found = stage_manifests(blueprint, "operators", bind(blueprint, {}), run_id="r", outputs={}, mirrors=[tmp_path])
    assert [each["kind"] for each in found] == ["Secret", "Namespace"]
    assert found[1]["metadata"]["labels"]["made"] == "theirs"


def shipped_sources() -> Iterator[tuple[ManifestsStage, Source]]:
    for folder in sorted(shipped_blueprints().glob("*/blueprint.yaml")):
        for stage in load_blueprint(folder.parent).stages:
            if isinstance(stage, ManifestsStage) and stage.source is not None:
                yield stage, stage.source


def test_every_shipped_blueprint_pins_its_operators_by_address_and_sum() -> None:
    sources = [source for _, source in shipped_sources()]
    assert len(sources) == 9
    for source in sources:
        assert source.is_pinned
        assert urlsplit(source.url).scheme == "https"
        assert f"/v{source.version}/" in f"{source.url}/"
        for sha256 in source.files.values() or [source.sha256]:
            assert len(bytes.fromhex(sha256)) == 32


def test_their_versions_are_those_of_the_recorded_definitions_and_of_the_rehearsal() -> None:
    for stage, source in shipped_sources():
        recorded = f"{source.name}-{source.version}"
        named = recorded + "-pytorchjobs" * (source.name == "training-operator")
        definitions = {each["metadata"]["name"] for each in recorded_definitions(named)}
        assert {each.name for each in stage.ready if each.kind == "CustomResourceDefinition"} <= definitions
        files = {file.rpartition("/")[2].removesuffix(".yaml") for file in source.files if "crd" in file}
        fetched = {f"{plural}.{group}" for group, _, plural in (name.partition("_") for name in files)}
        assert fetched in (set(), definitions)
        assert asset(f"mirror/{source.name}/{source.version}/manifest.yaml").is_file()


BAD = {
    "{name: ../x, version: v, url: u, sha256: ''}": "has '../x' as name, which cannot be a folder",
    "{name: x, version: v, url: u, sha256: '', namespace: n}": "has namespace without files",
    "{name: x, version: v, url: '', sha256: '', files: {a.yaml: SUM}}": "has files and no url",
    "{name: x, version: v, url: u, sha256: s, files: {a.yaml: SUM}}": "has files and a sha256",
    "{name: x, version: v, url: u, sha256: '', files: {../a.yaml: SUM}}": "has '../a.yaml' among files",
}


@pytest.mark.parametrize("source", list(BAD))
def test_validate_names_what_cannot_be_a_release(tmp_path: Path, source: str) -> None:
    folder = a_blueprint(tmp_path)
    text = (folder / "blueprint.yaml").read_text()
    stage = f"  - {{id: op, kind: manifests, title: O, expect: 1s..2s, source: {source.replace('SUM', '0' * 64)}}}\n"
    (folder / "blueprint.yaml").write_text(text.replace("stages:\n", f"stages:\n{stage}"))
    assert any(f"the source of op {BAD[source]}" in problem.sentence() for problem in validate(folder))


def test_a_sum_that_is_none_is_refused(tmp_path: Path) -> None:
    folder = a_blueprint(tmp_path)
    text = (folder / "blueprint.yaml").read_text()
    source = "{name: x, version: v, url: u, sha256: '', files: {a: abc}}"
    stage = f"  - {{id: op, kind: manifests, title: O, expect: 1s..2s, source: {source}}}\n"
    (folder / "blueprint.yaml").write_text(text.replace("stages:\n", f"stages:\n{stage}"))
    with pytest.raises(BlueprintError, match="files"):
        load_blueprint(folder)
