"""The acts of a runner by our own client, by the typed client over it and by `kubernetes.aio.dynamic`, on one server.

    python -m tests.bench.acts [--rounds N] [--runs N] [--kubeconfig FILE]

Each client gets a process of its own and plays N rounds: apply a ConfigMap, apply it again, patch it, read it, list its
namespace, delete it with its uid. Without a kubeconfig it starts a sandbox. The result is JSON: medians of CPU seconds,
memory after the first round and requests, and what each client makes of an API group whose server answers 503.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from actions.base.process import own_module
from actions.cluster.auth.kubeconfig import ClusterTarget, load_context

Document = dict[str, Any]
Round = Callable[[int], Awaitable[None]]

_NAMESPACE = "default"
_GROUP = "batch.example.com/v1"


def main() -> int:
    """Measure the clients, or play the part of one."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.acts", description="Compare clients.")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--kubeconfig", type=Path)
    parser.add_argument("--client", choices=sorted(_CLIENTS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        print(json.dumps(asyncio.run(_play(options.client, options.kubeconfig, options.rounds))))  # noqa: T201
        return 0
    with contextlib.ExitStack() as stack:
        kubeconfig = options.kubeconfig or stack.enter_context(_sandbox())
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in _CLIENTS}
        for _ in range(options.runs):
            for name, results in runs.items():
                results.append(_child(name, kubeconfig, options.rounds))
    result = {
        name: {figure: statistics.median(run[figure] for run in results) for figure in results[0]}
        for name, results in runs.items()
    }
    print(json.dumps({"rounds": options.rounds, **result, "group that answers 503": _unavailable()}, indent=2))  # noqa: T201
    return 0


async def _play(client: str, kubeconfig: Path, rounds: int) -> dict[str, float]:
    """The rounds of one client, in this process."""
    counted: list[str] = []
    async with _CLIENTS[client](kubeconfig, counted) as play:
        await play(0)
        first = len(counted)
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        start = time.process_time()
        for number in range(1, rounds + 1):
            await play(number)
        seconds = time.process_time() - start
    return {
        "rss_mb": round(rss, 1),
        "cpu_ms_a_round": round(seconds / rounds * 1000, 2),
        "requests_of_the_first_round": first,
        "requests_a_round": (len(counted) - first) / rounds,
        "cpu_seconds_in_all": round(time.process_time(), 3),
    }


def _manifest(number: int, value: str) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"acts-{number}", "namespace": _NAMESPACE, "labels": {"part": "bench"}},
        "data": {"value": value, "text": "x" * 2000},
    }


@contextlib.asynccontextmanager
async def _ours(kubeconfig: Path, counted: list[str]) -> Any:
    """Our client, as the runner uses it."""
    from actions.cluster.auth.session import KubeSession
    from actions.cluster.objects import client as objects
    from actions.cluster.objects.apply import apply

    session = await KubeSession.connect(ClusterTarget(kubeconfig))
    discovery = objects.Discovery(session)
    request = session.request

    async def counting(method: str, path: str, **rest: Any) -> bytes:
        counted.append(f"{method} {path}")
        return await request(method, path, **rest)

    vars(session)["request"] = counting

    async def play(number: int) -> None:
        made = await apply(session, discovery, _manifest(number, "one"))
        await apply(session, discovery, _manifest(number, "two"), force=True)
        ref = objects.ref_of(made)
        await objects.merge_patch(session, discovery, ref, {"data": {"more": "yes"}})
        found = await objects.fetch_object(session, discovery, ref)
        await objects.list_objects(session, discovery, "v1", "ConfigMap", namespace=_NAMESPACE)
        await objects.delete(session, discovery, ref, uid=found["metadata"]["uid"])

    try:
        yield play
    finally:
        await session.aclose()


@contextlib.asynccontextmanager
async def _typed(kubeconfig: Path, counted: list[str]) -> Any:
    """The typed calls of the Kubernetes project's library over our session."""
    from actions.cluster.auth.session import KubeSession

    session = await KubeSession.connect(ClusterTarget(kubeconfig))
    client = await session.typed_client("CoreV1Api")
    request = client.call_api

    async def counting(method: str, url: str, *rest: Any, **more: Any) -> Any:
        counted.append(f"{method} {url}")
        return await request(method, url, *rest, **more)

    vars(client)["call_api"] = counting
    from kubernetes.aio.client import CoreV1Api, V1ConfigMap, V1DeleteOptions, V1ObjectMeta, V1Preconditions

    core = CoreV1Api(client)

    async def play(number: int) -> None:
        name = f"acts-{number}"
        applying: Any = {"_content_type": "application/apply-patch+yaml", "field_manager": "eksml-tui"}
        for value in ("one", "two"):
            metadata = V1ObjectMeta(name=name, namespace=_NAMESPACE, labels={"part": "bench"})
            data = {"value": value, "text": "x" * 2000}
            body = V1ConfigMap(api_version="v1", kind="ConfigMap", metadata=metadata, data=data)
            await core.patch_namespaced_config_map(name, _NAMESPACE, body, force=value == "two", **applying)
        merge = "application/merge-patch+json"
        patch = {"data": {"more": "yes"}}
        await core.patch_namespaced_config_map(name, _NAMESPACE, patch, _content_type=merge)
        found = await core.read_namespaced_config_map(name, _NAMESPACE)
        await core.list_namespaced_config_map(_NAMESPACE)
        conditions = V1Preconditions(uid=found.metadata.uid if found.metadata else "")
        options = V1DeleteOptions(preconditions=conditions, propagation_policy="Background")
        await core.delete_namespaced_config_map(name, _NAMESPACE, body=options)

    try:
        yield play
    finally:
        await session.aclose()


@contextlib.asynccontextmanager
async def _dynamic(kubeconfig: Path, counted: list[str]) -> Any:
    """The dynamic client of the Kubernetes project's library, with our reading of the kubeconfig."""
    from kubernetes.aio.client import ApiClient

    configuration = _configuration(kubeconfig)
    async with ApiClient(configuration) as api:
        request = api.rest_client.request

        async def counting(method: str, url: str, **rest: Any) -> Any:
            counted.append(f"{method} {url}")
            return await request(method, url, **rest)

        api.rest_client.request = counting
        with tempfile.TemporaryDirectory() as folder:
            from kubernetes.aio.dynamic import DynamicClient

            made: Any = DynamicClient
            client = await made(api, cache_file=str(Path(folder) / "discovery.json"))
            kinds = await client.resources.get(api_version="v1", kind="ConfigMap")
            strict = {"field_manager": "eksml-tui", "query_params": [("fieldValidation", "Strict")]}

            async def play(number: int) -> None:
                body = _manifest(number, "one")
                await client.server_side_apply(kinds, body, **_fresh(strict))
                await client.server_side_apply(kinds, _manifest(number, "two"), force_conflicts=True, **_fresh(strict))
                name = body["metadata"]["name"]
                patch = {"data": {"more": "yes"}}
                merge = "application/merge-patch+json"
                await client.patch(kinds, patch, name=name, namespace=_NAMESPACE, content_type=merge)
                found = await client.get(kinds, name=name, namespace=_NAMESPACE)
                await client.get(kinds, namespace=_NAMESPACE)
                conditions = {"preconditions": {"uid": found.metadata.uid}, "propagationPolicy": "Background"}
                await client.delete(kinds, name=name, namespace=_NAMESPACE, body=conditions)

            yield play


_CLIENTS: dict[str, Callable[[Path, list[str]], Any]] = {"ours": _ours, "typed": _typed, "dynamic": _dynamic}


def _configuration(kubeconfig: Path) -> Any:
    from kubernetes.aio.client import Configuration

    chosen = load_context(ClusterTarget(kubeconfig))
    configuration = Configuration(host=chosen.server)
    configuration.api_key["BearerToken"] = chosen.token
    configuration.api_key_prefix["BearerToken"] = "Bearer"
    configuration.ssl_ca_cert = chosen.ca_file or _written(base64.b64decode(chosen.ca_data))
    return configuration


def _written(certificate: bytes) -> str:
    """The library reads certificates from files."""
    with tempfile.NamedTemporaryFile(prefix="acts-", suffix=".pem", delete=False) as file:
        file.write(certificate)
    return file.name


def _fresh(arguments: dict[str, Any]) -> dict[str, Any]:
    """The library appends to the list that it is given."""
    return {name: list(value) if isinstance(value, list) else value for name, value in arguments.items()}


def _child(client: str, kubeconfig: Path, rounds: int) -> dict[str, float]:
    argv = own_module("tests.bench.acts", "--client", client, "--rounds", str(rounds), "--kubeconfig", str(kubeconfig))
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


@contextlib.contextmanager
def _sandbox() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="eksml-acts-") as folder:
        argv = own_module("actions.sandbox", "--state", folder, "--foreground")
        child = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        try:
            if child.stdout is None:
                raise RuntimeError("the sandbox has no output")
            yield Path(child.stdout.readline().strip())
        finally:
            child.terminate()
            child.wait()


def _unavailable() -> dict[str, str]:
    """Return the result of either client for a group that is listed and whose server answers 503."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _HalfServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        return {"ours": asyncio.run(_resolved_by_us(address)), "dynamic": asyncio.run(_resolved_by_library(address))}
    finally:
        server.shutdown()


async def _resolved_by_us(address: str) -> str:
    from actions.cluster.auth.session import KubeSession
    from actions.cluster.objects.client import Discovery

    cluster = {"clusters": [{"name": "c", "cluster": {"server": address}}], "users": [{"name": "u", "user": {}}]}
    context = {"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "current-context": "c"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **cluster, **context}))
        session = await KubeSession.connect(ClusterTarget(path))
        try:
            return str(await Discovery(session).resolve(_GROUP, "Job"))
        except Exception as error:  # noqa: BLE001 - what is raised is the result
            return f"{type(error).__name__}: {error}"
        finally:
            await session.aclose()


async def _resolved_by_library(address: str) -> str:
    from kubernetes.aio.client import ApiClient, Configuration
    from kubernetes.aio.dynamic import DynamicClient

    async with ApiClient(Configuration(host=address)) as api:
        with tempfile.TemporaryDirectory() as folder:
            made: Any = DynamicClient
            client = await made(api, cache_file=str(Path(folder) / "discovery.json"))
            try:
                return str(await client.resources.get(api_version=_GROUP, kind="Job"))
            except Exception as error:  # noqa: BLE001 - what is raised is the result
                return f"{type(error).__name__}: {error}"


class _HalfServer(BaseHTTPRequestHandler):
    """An API server with one group that is away."""

    def do_GET(self) -> None:
        """Answer discovery."""
        version = {"groupVersion": _GROUP, "version": "v1"}
        group = {"name": _GROUP.partition("/")[0], "versions": [version], "preferredVersion": version}
        answers: dict[str, Document] = {
            "/version": {"gitVersion": "v1.34.0"},
            "/apis": {"kind": "APIGroupList", "groups": [group]},
        }
        answer = answers.get(self.path)
        body = json.dumps(answer or {"kind": "Status", "code": 503, "message": "the server is unavailable"}).encode()
        self.send_response(200 if answer else 503)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Nothing is logged."""


if __name__ == "__main__":
    sys.exit(main())
