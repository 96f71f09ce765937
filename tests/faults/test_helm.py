"""The helm stage on the sandbox: helm is a script that keeps a release as helm does."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.cluster.objects.client import ObjectRef
from actions.run.client import send_request
from actions.run.state.records import RequestKind
from actions.run.state.view import RunState
from actions.sandbox.locate import RunningSandbox
from tests.faults.small import BLUEPRINT, a_run
from tests.faults.somebody import Somebody
from tests.support.missing import needs
from tests.support.smallrun import carry_out, torn_down

SANDBOX_SPEED = 100.0

pytestmark = needs("kubectl")

BARE = BLUEPRINT.rpartition("  - {id: objects")[0]

HELM_STAGE = """
  - id: chart
    kind: helm
    title: Chart
    needs: [access]
    expect: 1s..5s
    release: tool
    chart: tool
    repository: https://charts.example
    version: 1.2.3
    namespace: helm-tests
    settings: {image.tag: v1, replicas: "2"}
"""

HELM = """#!/bin/sh
echo "$@" >>{log}
while [ $# -gt 0 ]; do
  case "$1" in
    --kubeconfig) kubeconfig=$2 ;;
    --namespace) namespace=$2 ;;
    upgrade|uninstall) verb=$1 ;;
  esac
  shift
done
k="kubectl --kubeconfig $kubeconfig -n $namespace"
secret=sh.helm.release.v1.tool.v1
if [ "$verb" = uninstall ]; then $k delete secret $secret; exit; fi
$k create secret generic $secret --type=helm.sh/release.v1 --from-literal=release=x
$k label secret $secret owner=helm name=tool status=deployed version=1
echo "Release \\"tool\\" has been installed"
"""

RELEASE = ObjectRef("v1", "Secret", "helm-tests", "sh.helm.release.v1.tool.v1")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Helm is on PATH; what it is asked for is in here."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "helm").write_text(HELM.format(log=tmp_path / "log"))
    (tools / "helm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/local/bin:/usr/bin:/bin")
    return tmp_path / "log"


async def test_a_chart_is_installed_and_uninstalled_with_its_namespace(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody, log: Path
) -> None:
    folder = a_run(tmp_path, sandbox, HELM_STAGE, blueprint=BARE)
    view = await carry_out(folder)
    assert view.state is RunState.SUCCEEDED, view.stage("chart").message
    asked = log.read_text()
    assert "upgrade --install tool tool --version 1.2.3 --namespace helm-tests" in asked
    assert "--repo https://charts.example" in asked
    assert "--set-string image.tag=v1 --set replicas=2" in asked
    assert await somebody.get(RELEASE) is not None
    view = await torn_down(folder)
    assert view.state is RunState.TORN_DOWN, [step.message for step in view.teardown]
    assert "uninstall tool --namespace helm-tests" in log.read_text()
    assert await somebody.get(ObjectRef("v1", "Namespace", "", "helm-tests")) is None
    assert view.audit is not None
    assert view.audit.leftovers == ()


async def test_a_release_that_is_there_is_used_and_left(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody, log: Path
) -> None:
    await somebody.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "helm-tests"}})
    labels = {"owner": "helm", "name": "tool", "status": "deployed", "version": "4"}
    metadata = {"name": "sh.helm.release.v1.tool.v4", "namespace": "helm-tests", "labels": labels}
    await somebody.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "helm.sh/release.v1"})
    folder = a_run(tmp_path, sandbox, HELM_STAGE, blueprint=BARE)
    view = await carry_out(folder)
    assert view.stage("chart").message == "The release tool (deployed) was there already: used as it is."
    view = await torn_down(folder)
    assert view.state is RunState.TORN_DOWN
    assert not log.exists()
    await somebody.remove(ObjectRef("v1", "Namespace", "", "helm-tests"))


async def test_d02_a_namespace_with_foreign_objects_is_judged_before_anything_is_uninstalled(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody, log: Path
) -> None:
    folder = a_run(tmp_path, sandbox, HELM_STAGE, blueprint=BARE)
    await carry_out(folder)
    theirs = ObjectRef("v1", "ConfigMap", "helm-tests", "theirs")
    release = {"meta.helm.sh/release-name": "tool", "meta.helm.sh/release-namespace": "helm-tests"}
    for name, told in (("theirs", {}), ("of-the-chart", release)):
        metadata = {"name": name, "namespace": "helm-tests", "annotations": told}
        await somebody.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    view = await torn_down(folder)
    said = next(step.message for step in view.teardown if step.id == "chart")
    assert "Nothing was removed. Namespace helm-tests: it holds ConfigMap theirs, not the run's" in said
    assert "uninstall" not in log.read_text()
    await somebody.remove(theirs)
    send_request(folder, RequestKind.RETRY, start=False)
    said = next(step.message for step in (await carry_out(folder)).teardown if step.id == "chart")
    assert "it holds ConfigMap of-the-chart" in said, "the script has left it, and Helm no more says whose it is"
    assert "uninstall" in log.read_text()
    await somebody.remove(ObjectRef("v1", "ConfigMap", "helm-tests", "of-the-chart"))
    send_request(folder, RequestKind.RETRY, start=False)
    assert (await carry_out(folder)).state is RunState.TORN_DOWN


async def test_d02_a_release_that_was_installed_anew_by_others_is_theirs(
    tmp_path: Path, sandbox: RunningSandbox, somebody: Somebody, log: Path
) -> None:
    folder = a_run(tmp_path, sandbox, HELM_STAGE, blueprint=BARE)
    view = await carry_out(folder)
    made = await somebody.get(RELEASE)
    assert made is not None
    assert made["metadata"]["uid"] in view.made_uids
    await somebody.remove(RELEASE)
    labels = {"owner": "helm", "name": "tool", "status": "deployed", "version": "1"}
    metadata = {"name": RELEASE.name, "namespace": RELEASE.namespace, "labels": labels}
    await somebody.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "helm.sh/release.v1"})
    view = await torn_down(folder)
    assert f"it holds Secret {RELEASE.name}, not the run's" in next(
        step.message for step in view.teardown if step.id == "chart"
    )
    assert "uninstall" not in log.read_text()
    assert await somebody.get(RELEASE) is not None
    await somebody.remove(RELEASE)
    send_request(folder, RequestKind.RETRY, start=False)
    assert (await carry_out(folder)).state is RunState.TORN_DOWN


async def test_without_helm_the_command_is_told(
    tmp_path: Path, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    view = await carry_out(a_run(tmp_path, sandbox, HELM_STAGE, blueprint=BARE))
    assert view.state is RunState.FAILED
    assert view.stage("chart").message.startswith("The helm program is not on PATH.")
    assert "helm upgrade --install tool tool --version 1.2.3" in view.stage("chart").message
