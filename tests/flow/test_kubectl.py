"""The first things that people do with `kubectl`, on the sandbox and on a real control plane alike."""

from __future__ import annotations

import asyncio

import pytest

from tests.flow.kubectl import Kubectl
from tests.support.missing import needs
from tests.support.polling import until

pytestmark = [needs("kubectl"), pytest.mark.asyncio(loop_scope="module")]

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: hello, labels: {app: hello}}
spec:
  template:
    metadata: {labels: {app: hello}}
    spec:
      restartPolicy: Never
      containers:
        - {name: main, image: "busybox:1.36", command: [sh, -c, "echo one; sleep %d; echo two"]}
"""
SLEEPER = """
apiVersion: v1
kind: Pod
metadata: {name: sleeper}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: "busybox:1.36", command: [sleep, "1000000"]}]
"""
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: things, kind: Thing, shortNames: [th]}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties: {spec: {type: object, required: [size], properties: {size: {type: integer}}}}
      additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
"""


async def test_a_job_is_applied_followed_awaited_and_deleted_with_its_pods(cluster: Kubectl) -> None:
    job = JOB % (2 * cluster.speed)
    assert await cluster.ok("apply", "-f", "-", stdin=job) == "job.batch/hello created\n"
    assert await cluster.ok("apply", "-f", "-", stdin=job) == "job.batch/hello unchanged\n"

    async def has_begun() -> bool:  # not `wait` for Running: on a busy machine the pod may have ended by then
        phases = await cluster.ok("get", "pods", "-l", "app=hello", "-o", "jsonpath={.items[*].status.phase}")
        return phases in ("Running", "Succeeded")

    await until(has_begun, "the job's pod to begin", deadline_seconds=240)
    assert await cluster.ok("logs", "-f", "job/hello") == "one\ntwo\n"
    await cluster.ok("wait", "--for=condition=complete", "job/hello", "--timeout=240s")
    row = (await cluster.ok("get", "jobs", "--no-headers")).split()
    assert row[:3] == ["hello", "Complete", "1/1"]
    stamped = await cluster.ok("logs", "-l", "app=hello", "--timestamps", "--tail=1", "--since=1h")
    assert stamped.endswith(" two\n")
    assert "Created pod: hello-" in await cluster.ok("get", "events")
    await cluster.ok("delete", "job", "hello", "--timeout=240s")
    await cluster.ok("wait", "--for=delete", "pod", "-l", "app=hello", "--timeout=240s")


async def test_exec_runs_in_a_pod_and_a_deleted_pod_ends_first(cluster: Kubectl) -> None:
    await cluster.ok("create", "-f", "-", stdin=SLEEPER)
    await cluster.ok("wait", "--for=jsonpath={.status.phase}=Running", "pod", "sleeper", "--timeout=240s")
    await cluster.ok("wait", "--for=condition=Ready", "pod/sleeper", "--timeout=240s")
    assert await cluster.ok("exec", "sleeper", "--", "echo", "hello") == "hello\n"
    failed = await cluster("exec", "sleeper", "--", "sh", "-c", "exit 3")
    assert (failed.code, failed.err) == (3, "command terminated with exit code 3\n")
    listed = await cluster.ok("get", "pods", "-A", "--field-selector", "metadata.name=sleeper", "-o", "name")
    assert listed == "pod/sleeper\n"
    await cluster.ok("delete", "pod", "sleeper", "--timeout=240s")
    gone = await cluster("get", "pod", "sleeper")
    assert (gone.code, gone.err) == (1, 'Error from server (NotFound): pods "sleeper" not found\n')


async def test_small_objects_are_created_by_name(cluster: Kubectl) -> None:
    await cluster.ok("create", "namespace", "team")
    await cluster.ok("create", "-n", "team", "configmap", "colours", "--from-literal=sky=blue")
    await cluster.ok("create", "-n", "team", "secret", "generic", "token", "--from-literal=key=value")
    assert await cluster.ok("get", "-n", "team", "cm", "colours", "-o", "jsonpath={.data}") == '{"sky":"blue"}'
    assert await cluster.ok("get", "-n", "team", "secret", "token", "-o", "jsonpath={.data.key}") == "dmFsdWU="
    await cluster.ok("delete", "namespace", "team", "--timeout=240s")


async def test_a_custom_type_is_known_as_soon_as_it_is_established(cluster: Kubectl) -> None:
    thing = "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: t}\nspec: {%s}\n"
    await cluster.ok("apply", "-f", "-", stdin=DEFINITION)
    await cluster.ok("wait", "--for=condition=Established", "crd/things.example.org", "--timeout=240s")
    await cluster.ok("apply", "-f", "-", stdin=thing % "size: 3")
    assert (await cluster.ok("get", "th", "--no-headers")).split() == ["t", "3"]
    unknown = await cluster("apply", "-f", "-", stdin=thing % "size: 3, colour: red")
    assert 'unknown field "spec.colour"' in unknown.err
    wrong = await cluster("apply", "-f", "-", stdin=thing % 'size: "x"')
    assert "spec.size in body must be of type integer" in wrong.err
    assert "things" in await cluster.ok("api-resources", "--api-group=example.org")


async def test_a_watch_sees_a_pod_come_and_go(cluster: Kubectl) -> None:
    async with cluster.started("get", "pods", "-w", "--output-watch-events") as watch, asyncio.timeout(300):
        await cluster.ok("apply", "-f", "-", stdin=SLEEPER)
        told = await read_to(watch, "Running")
        await cluster.ok("delete", "-f", "-", stdin=SLEEPER)
        told += await read_to(watch, "DELETED")
    kinds = [line.split()[0] for line in told[1:]]
    assert kinds[0] == "ADDED"
    assert kinds[-1] == "DELETED"
    assert "DELETED" not in kinds[:-1]


async def read_to(watch: asyncio.subprocess.Process, word: str) -> list[str]:
    """Read lines up to the first one with a word."""
    assert watch.stdout is not None
    lines: list[str] = []
    while not lines or word not in lines[-1]:
        line = (await watch.stdout.readline()).decode()
        assert line, f"the watch ended before it told of {word}: {lines}"
        lines.append(line)
    return lines


async def test_the_viewer_may_look_and_nothing_else(cluster: Kubectl) -> None:
    await cluster.ok("get", "pods", "-A", "--as=viewer")
    refused = await cluster("get", "nodes", "--as=viewer")
    assert refused.code == 1
    assert 'User "viewer" cannot list resource "nodes"' in refused.err
    assert (await cluster("auth", "can-i", "delete", "pods", "--as=viewer")).out.startswith("no")
