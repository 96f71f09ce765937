"""All that people do with `kubectl`, tried once on whatever `cluster` is: the sandbox, or a real control plane."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from tests.flow.kubectl import PROGRAM, Kubectl
from tests.support.missing import needs

pytestmark = [needs("kubectl"), pytest.mark.asyncio(loop_scope="module")]

POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  tolerations: [{operator: Exists}]
  containers:
    - name: main
      image: busybox:1.36
      command: [sh, -c, "echo started; sleep 1000000"]
      ports: [{containerPort: 8080}]
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      tolerations: [{operator: Exists}]
      containers:
        - name: main
          image: "busybox:1.36"
          command: [sleep, "1000000"]
          env: [{name: COLOUR, value: %s}, {name: SIZE, value: "1"}]
"""
SETTINGS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: %s}\n"
CREATED: tuple[tuple[str, ...], ...] = (
    ("configmap", "c", "--from-literal=a=b"),
    ("secret", "generic", "s", "--from-literal=a=b"),
    ("secret", "docker-registry", "r", "--docker-server=x", "--docker-username=u", "--docker-password=p"),
    ("serviceaccount", "sa"),
    ("job", "j", "--image=busybox:1.36", "--", "sh", "-c", "echo done"),
    ("cronjob", "cj", "--image=busybox:1.36", "--schedule=0 0 1 1 *", "--", "date"),
    ("deployment", "d", "--image=busybox:1.36", "--replicas=0", "--", "sleep", "1000000"),
    ("service", "clusterip", "svc", "--tcp=80:8080"),
    ("quota", "q", "--hard=configmaps=100"),
    ("poddisruptionbudget", "pdb", "--selector=app=d", "--min-available=1"),
    ("role", "reader", "--verb=get,list", "--resource=pods,deployments.apps"),
    ("rolebinding", "readers", "--role=reader", "--user=somebody"),
)
"""Kind and name and more, as `kubectl create` takes them."""
OUTPUTS = (
    ("-o", "wide"), ("-o", "yaml"), ("-o", "json"), ("-o", "name"), ("-o", "jsonpath={.items[*].metadata.name}"),
    ("-o", "custom-columns=NAME:.metadata.name,PHASE:.status.phase"), ("--show-labels",), ("-L", "app"),
    ("-o", "go-template={{range .items}}{{.metadata.name}} {{end}}"), ("--sort-by=.metadata.creationTimestamp",),
    ("-l", "app=web"), ("-l", "app in (web),nothing!=x"), ("--field-selector", "metadata.name=one"),
    ("-A", "--chunk-size=1"), ("-o", "yaml", "--show-managed-fields"),
)  # fmt: skip


async def test_the_server_says_what_it_is_and_what_it_knows(cluster: Kubectl) -> None:
    assert "serverVersion" in msgspec.json.decode(await cluster.ok("version", "-o", "json"))
    resources = await cluster.ok("api-resources", "-o", "name")
    assert {"pods", "jobs.batch", "deployments.apps"} <= set(resources.split())
    assert {"v1", "apps/v1", "batch/v1"} <= set((await cluster.ok("api-versions")).split())
    await cluster.ok("cluster-info")
    assert await cluster.ok("get", "--raw", "/readyz") == "ok"
    assert "restartPolicy" in await cluster.ok("explain", "pod.spec")
    assert "<[]ContainerPort>" in await cluster.ok("explain", "deployment.spec.template.spec.containers")
    assert "backoffLimit" in await cluster.ok("explain", "job", "--recursive")
    assert (await cluster("explain", "pod.spec.colour")).code == 1
    top = await cluster("top", "nodes")
    assert (top.code, top.err) == (1, "error: Metrics API not available\n")


async def test_rights_are_told(cluster: Kubectl) -> None:
    assert await cluster.ok("auth", "can-i", "create", "pods") == "yes\n"
    assert "Username" in await cluster.ok("auth", "whoami")


async def test_objects_are_created_by_words(cluster: Kubectl) -> None:
    for argv in CREATED:
        assert (await cluster.ok("create", *argv)).endswith(" created\n")
    named = [f"{argv[0]}/{argv[2] if argv[0] in ('secret', 'service') else argv[1]}" for argv in CREATED]
    told = [line.split() for line in (await cluster.ok("describe", *named)).splitlines() if line.startswith("Name:")]
    assert told == [["Name:", name.partition("/")[2]] for name in named]
    bad = await cluster("create", "cronjob", "bad", "--image=busybox:1.36", "--schedule=nonsense", "--", "date")
    assert "spec.schedule: Invalid value" in bad.err
    for argv in CREATED:
        again = await cluster("create", *argv)
        assert (again.code, "AlreadyExists" in again.err or "already exists" in again.err) == (1, True), argv
    deleted = await cluster.ok("delete", *named, "--timeout=240s")
    assert len(deleted.splitlines()) == len(named)


async def test_cluster_wide_objects_are_created_by_words(cluster: Kubectl) -> None:
    await cluster.ok("create", "clusterrole", "eksml-test", "--verb=get", "--resource=nodes")
    await cluster.ok("create", "clusterrolebinding", "eksml-test", "--clusterrole=eksml-test", "--user=somebody")
    await cluster.ok("create", "priorityclass", "eksml-test", "--value=10")
    for kind in ("clusterrole", "clusterrolebinding", "priorityclass"):
        assert "eksml-test" in await cluster.ok("describe", kind, "eksml-test")
        await cluster.ok("delete", kind, "eksml-test")


async def test_objects_are_shown_in_every_form(cluster: Kubectl) -> None:
    for name in ("one", "two"):
        await cluster.ok("apply", "-f", "-", stdin=POD % name)
    await cluster.ok("wait", "--for=condition=Ready", "pods", "-l", "app=web", "--timeout=240s")
    for output in OUTPUTS:
        assert "one" in await cluster.ok("get", "pods", *output), output
    assert "two" not in await cluster.ok("get", "pods", "--field-selector=metadata.name=one")
    assert "pod/one" in await cluster.ok("get", "all")
    assert "Started container main" in await cluster.ok("describe", "pod", "one")
    assert "Allocated resources" in await cluster.ok("describe", "nodes")
    assert "Started" in await cluster.ok("events", "--for=pod/one")
    assert "Started" in await cluster.ok("get", "events", "--sort-by=.lastTimestamp")
    unknown = await cluster("get", "pods", "--field-selector=spec.colour=red")
    assert (unknown.code, "field label not supported: spec.colour" in unknown.err) == (1, True)
    gone = await cluster("get", "pod", "three")
    assert (gone.code, gone.err) == (1, 'Error from server (NotFound): pods "three" not found\n')


async def test_metadata_and_fields_are_changed(cluster: Kubectl) -> None:
    await cluster.ok("apply", "-f", "-", stdin=SETTINGS % "red")
    await cluster.ok("label", "cm", "settings", "a=1")
    assert (await cluster("label", "cm", "settings", "a=2")).code == 1
    await cluster.ok("label", "cm", "settings", "a=2", "--overwrite")
    await cluster.ok("annotate", "cm", "settings", "note=here")
    await cluster.ok("annotate", "cm", "settings", "note-")
    for kind, change in (
        ("strategic", '{"data":{"one":"1"}}'),
        ("merge", '{"data":{"two":"2","colour":null}}'),
        ("json", '[{"op":"test","path":"/data/one","value":"1"},{"op":"add","path":"/data/three","value":"3"}]'),
    ):
        await cluster.ok("patch", "cm", "settings", "--type", kind, "-p", change)
    shown = msgspec.json.decode(await cluster.ok("get", "cm", "settings", "-o", "json"))
    assert shown["data"] == {"one": "1", "two": "2", "three": "3"}
    assert shown["metadata"]["labels"] == {"a": "2"}
    wrong = await cluster("patch", "cm", "settings", "--type=json", "-p", '[{"op":"remove","path":"/data/x"}]')
    assert wrong.code == 1
    await cluster.ok("replace", "-f", "-", stdin=SETTINGS % "blue")
    await cluster.ok("delete", "cm", "settings")


async def test_a_type_that_is_not_served_is_named(cluster: Kubectl) -> None:
    told = await cluster("apply", "-f", "-", stdin="apiVersion: none.example/v1\nkind: Thing\nmetadata: {name: x}\n")
    assert (told.code, 'no matches for kind "Thing" in version "none.example/v1"' in told.err) == (1, True)


async def test_apply_merges_what_three_sides_want(cluster: Kubectl) -> None:
    assert (await cluster("diff", "-f", "-", stdin=DEPLOYMENT % "red")).code == 1
    await cluster.ok("apply", "-f", "-", stdin=DEPLOYMENT % "red")
    assert (await cluster("diff", "-f", "-", stdin=DEPLOYMENT % "red")).code == 0
    await cluster.ok("scale", "deploy/web", "--replicas=1")
    without_size = (DEPLOYMENT % "blue").replace(', {name: SIZE, value: "1"}', "").replace("  replicas: 2\n", "")
    assert await cluster.ok("apply", "-f", "-", stdin=without_size) == "deployment.apps/web configured\n"
    container = "{.spec.replicas} {.spec.template.spec.containers[0].env}"
    shown = await cluster.ok("get", "deploy", "web", "-o", f"jsonpath={container}")
    assert shown == '1 [{"name":"COLOUR","value":"blue"}]'
    refused = await cluster("apply", "--server-side", "-f", "-", "--field-manager=other", stdin=DEPLOYMENT % "green")
    assert refused.code == 1
    assert ' with "kubectl-client-side-apply"' in refused.err
    forced = ("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-")
    await cluster.ok(*forced, stdin=DEPLOYMENT % "green")
    await cluster.ok(*forced, "--dry-run=server", stdin=DEPLOYMENT % "grey")
    env = "jsonpath={.spec.template.spec.containers[0].env[0].value}"
    assert await cluster.ok("get", "deploy", "web", "-o", env) == "green"
    await cluster.ok("apply", "view-last-applied", "deploy/web")
    await cluster.ok("delete", "deploy", "web", "--cascade=foreground", "--timeout=240s")


async def test_what_was_applied_by_the_client_goes_on_on_the_server(cluster: Kubectl) -> None:
    await cluster.ok("apply", "-f", "-", stdin=SETTINGS % "red")
    assert "serverside-applied" in await cluster.ok("apply", "--server-side", "-f", "-", stdin=SETTINGS % "blue")
    await cluster.ok("apply", "-f", "-", stdin=SETTINGS % "green")
    assert await cluster.ok("get", "cm", "settings", "-o", "jsonpath={.data.colour}") == "green"


async def test_a_deployment_rolls_out_and_back(cluster: Kubectl) -> None:
    await cluster.ok("apply", "-f", "-", stdin=DEPLOYMENT % "red")
    done = ("rollout", "status", "deploy/web", "--timeout=240s")
    await cluster.ok(*done)
    await cluster.ok("wait", "--for=condition=Available", "deploy/web", "--timeout=240s")
    await cluster.ok("wait", "--for=jsonpath={.status.readyReplicas}=2", "deploy/web", "--timeout=240s")
    await cluster.ok("set", "env", "deploy/web", "COLOUR=blue")
    await cluster.ok(*done)
    await cluster.ok("rollout", "undo", "deploy/web")
    await cluster.ok(*done)
    env = "jsonpath={.spec.template.spec.containers[0].env[0].value}"
    assert await cluster.ok("get", "deploy", "web", "-o", env) == "red"
    revisions = [line.split()[0] for line in (await cluster.ok("rollout", "history", "deploy/web")).splitlines()[2:-1]]
    assert revisions == ["2", "3"]
    await cluster.ok("rollout", "pause", "deploy/web")
    await cluster.ok("set", "image", "deploy/web", "main=busybox:1.37")
    await cluster.ok("rollout", "resume", "deploy/web")
    await cluster.ok("rollout", "restart", "deploy/web")
    await cluster.ok(*done)
    await cluster.ok("scale", "deploy/web", "--replicas=0")
    await cluster.ok("wait", "--for=delete", "pods", "-l", "app=web", "--timeout=240s")


async def test_pods_are_looked_into(cluster: Kubectl) -> None:
    await cluster.ok("apply", "-f", "-", stdin=POD % "one")
    await cluster.ok("wait", "--for=condition=Ready", "pod/one", "--timeout=240s")
    assert await cluster.ok("logs", "one") == "started\n"
    assert await cluster.ok("logs", "one", "--tail=1", "--since=1h") == "started\n"
    assert "[pod/one/main] started" in await cluster.ok("logs", "-l", "app=web", "--prefix")
    assert await cluster.ok("exec", "one", "--", "echo", "hi") == "hi\n"
    assert await cluster.ok("exec", "-i", "one", "--", "cat", stdin="in and out\n") == "in and out\n"
    failed = await cluster("exec", "one", "--", "sh", "-c", "exit 3")
    assert failed.code == 3
    missing = await cluster("logs", "one", "-c", "other")
    assert "container other is not valid for pod one" in missing.err


async def test_a_terminal_in_a_pod_takes_lines_and_ends_with_its_shell(cluster: Kubectl) -> None:
    await cluster.ok("apply", "-f", "-", stdin=POD % "one")
    await cluster.ok("wait", "--for=condition=Ready", "pod/one", "--timeout=240s")
    leader, follower = os.openpty()
    try:
        child = await _spawn(cluster, "exec", "-it", "one", "--", "sh", terminal=follower)
        os.write(leader, b"echo over $((40+2))\nexit 5\n")
        async with asyncio.timeout(240):
            assert await child.wait() == 5
    finally:
        os.close(leader)
        os.close(follower)


async def test_a_node_is_emptied_and_used_again(cluster: Kubectl) -> None:
    await cluster.ok("apply", "-f", "-", stdin=POD % "one")
    await cluster.ok("wait", "--for=condition=Ready", "pod/one", "--timeout=240s")
    node = await cluster.ok("get", "pod", "one", "-o", "jsonpath={.spec.nodeName}")
    await cluster.ok("cordon", node)
    assert "SchedulingDisabled" in await cluster.ok("get", "node", node)
    drained = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--pod-selector=app=web", "--timeout=240s")
    await cluster.ok("drain", node, *drained)
    assert (await cluster("get", "pod", "one")).code == 1
    await cluster.ok("uncordon", node)
    await cluster.ok("taint", "node", node, "eksml-test=1:NoSchedule")
    await cluster.ok("taint", "node", node, "eksml-test-")


async def test_waits_end_when_what_they_wait_for_does_not_come(cluster: Kubectl) -> None:
    late = await cluster("wait", "--for=condition=Ready", "pod/none", "--timeout=1s")
    assert (late.code, "NotFound" in late.err) == (1, True)
    coming = asyncio.create_task(cluster("wait", "--for=create", "cm/settings", "--timeout=240s"))
    await cluster.ok("apply", "-f", "-", stdin=SETTINGS % "red")
    assert (await coming).code == 0
    going = asyncio.create_task(cluster("wait", "--for=delete", "cm/settings", "--timeout=240s"))
    await cluster.ok("delete", "cm", "settings")
    assert (await going).code == 0


async def _spawn(cluster: Kubectl, *argv: str, terminal: int | None = None) -> asyncio.subprocess.Process:
    assert PROGRAM is not None
    path = Path(PROGRAM)
    pipe = asyncio.subprocess.PIPE if terminal is None else terminal
    return await asyncio.create_subprocess_exec(
        path, *argv, stdin=pipe, stdout=pipe, stderr=pipe, env=cluster.environment()
    )
