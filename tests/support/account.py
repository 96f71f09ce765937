"""An AWS account: moto, which answers as AWS describes its API."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock, Thread
from typing import Any
from urllib.request import Request, urlopen

import boto3
import botocore.session
import pytest
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

REGION = "us-west-2"


@contextmanager
def an_account() -> Iterator[str]:
    """Serve an empty account on a free port of 127.0.0.1; gives the address for `AWS_ENDPOINT_URL`."""
    with services_read_once(), pytest.MonkeyPatch.context() as patched:
        patched.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")  # hundreds of images, made anew for every empty account
        server = make_server("127.0.0.1", 0, _OneAtATime(), threaded=True)
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{server.port}"
        with urlopen(Request(f"{address}/moto-api/reset", method="POST")):
            pass  # of what this process keeps for all servers
        yield address
        server.shutdown()
        thread.join()


class _OneAtATime:
    """Moto, one request after the other: it looks at `If-Match` and writes in two steps, S3 in one."""

    def __init__(self) -> None:
        self._app: Any = DomainDispatcherApplication(create_backend_app)
        self._lock = Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        with self._lock:
            return list(self._app(environ, start_response))


_shared_loader = cache(botocore.session.create_loader)


@contextmanager
def services_read_once() -> Iterator[None]:
    """Let all sessions of botocore share the descriptions of services: that of EC2 takes half a second to read."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(botocore.session, "create_loader", _shared_loader)
        yield


def client(service: str) -> Any:
    """A client of the account that `AWS_ENDPOINT_URL` names."""
    make: Any = boto3.client
    return make(service, region_name=REGION)


def a_group(name: str) -> str:
    """A security group in a VPC of its own; its id."""
    vpc = client("ec2").create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    return str(client("ec2").create_security_group(GroupName=name, Description="nodes", VpcId=vpc)["GroupId"])


def an_image(repository: str, tag: str) -> str:
    """An image without layers in a new repository; its digest."""
    config = {"digest": "sha256:" + hashlib.sha256(b"config").hexdigest(), "size": 1}
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": {"mediaType": "application/vnd.docker.container.image.v1+json", **config},
            "layers": [],
        }
    )
    ecr = client("ecr")
    ecr.create_repository(repositoryName=repository)
    answer = ecr.put_image(repositoryName=repository, imageManifest=manifest, imageTag=tag)
    return str(answer["image"]["imageId"]["imageDigest"])
