"""EKS clusters: their endpoints and kubeconfigs, and tokens made in this process without the `aws` program.

A token is a presigned GetCallerIdentity request. It is good for 15 minutes from its date, whatever value
X-Amz-Expires has, and only for the cluster whose name is signed into it. Making one is arithmetic: nothing is sent.

Source: aws-iam-authenticator `pkg/token`; AWS CLI 2 `eks get-token`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import msgspec
import yaml

from actions.base.clock import Clock, SystemClock
from actions.base.errors import AccessError, ConfigError, FormatError, UnreachableError
from actions.base.process import own_module
from actions.base.untrusted import one_line
from actions.cloud.aws_session import AwsSession


class EksCluster(msgspec.Struct, frozen=True):
    """A cluster as EKS describes it."""

    name: str
    region: str
    arn: str
    status: str
    """CREATING, ACTIVE, DELETING, FAILED, UPDATING or PENDING."""
    version: str
    endpoint: str
    """URL of the API server; empty while the cluster is being made."""
    ca: str
    """Certificate of its authority, PEM in base64; empty where there is none."""


async def describe_cluster(session: AwsSession, name: str, *, region: str = "") -> EksCluster:
    """Fetch a cluster's description from EKS.

    Args:
        session: The credentials.
        name: Of the cluster.
        region: Instead of the session's.

    Raises:
        MissingError: There is no such cluster in the region.
        AccessError, UnreachableError, RefusedError, ConfigError: As `AwsSession.call`.
        FormatError: The certificate is not base64.
    """
    answer = await session.call("eks", "describe_cluster", region=region, name=name)
    return _cluster_of(answer.get("cluster") or {}, region or await session.region())


def kubeconfig_for(cluster: EksCluster, *, profile: str = "", has_aws_cli: bool = True) -> bytes:
    """A kubeconfig with one context, named like the cluster, for kubectl too: its token comes from `aws eks get-token`.

    Args:
        cluster: With an endpoint.
        profile: Handed to that command as AWS_PROFILE; empty to leave it to the environment.
        has_aws_cli: The program `aws` is here; otherwise our own exec plugin takes its place.

    Raises:
        UnreachableError: The cluster has no endpoint yet.

    Source: `aws eks update-kubeconfig`, AWS CLI 2.
    """
    if not cluster.endpoint:
        raise UnreachableError(
            f"The cluster {cluster.name} is {cluster.status or 'not ready'} and has no endpoint yet.",
            hint="Wait until it is ACTIVE.",
        )
    server: dict[str, str] = {"server": cluster.endpoint}
    if cluster.ca and cluster.endpoint.startswith("https://"):
        server["certificate-authority-data"] = cluster.ca
    user = cluster.arn or cluster.name
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": user, "cluster": server}],
        "contexts": [{"name": cluster.name, "context": {"cluster": user, "user": user}}],
        "current-context": cluster.name,
        "preferences": {},
        "users": [{"name": user, "user": {"exec": _exec_of(cluster, profile, has_aws_cli=has_aws_cli)}}],
    }
    return yaml.safe_dump(document, sort_keys=False).encode()


def _exec_of(cluster: EksCluster, profile: str, *, has_aws_cli: bool) -> dict[str, object]:
    command = ["aws"] if has_aws_cli else own_module(EXEC_MODULE)
    return {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": command[0],
        "args": [
            *command[1:],
            *("--region", cluster.region),
            *(("eks", "get-token") if has_aws_cli else ()),
            *("--cluster-name", cluster.name),
            *("--output", "json"),
        ],
        "env": [{"name": "AWS_PROFILE", "value": profile}] if profile else None,
        "interactiveMode": "IfAvailable",
        "provideClusterInfo": False,
    }


def _cluster_of(found: dict[str, Any], region: str) -> EksCluster:
    ca = str((found.get("certificateAuthority") or {}).get("data") or "")
    try:
        base64.b64decode(ca, validate=True)
    except binascii.Error as error:
        raise FormatError(f"EKS gave a certificate for {found.get('name')} that is not base64.") from error
    return EksCluster(
        name=one_line(str(found.get("name") or "")),
        region=region,
        arn=one_line(str(found.get("arn") or "")),
        status=one_line(str(found.get("status") or "")),
        version=one_line(str(found.get("version") or "")),
        endpoint=one_line(str(found.get("endpoint") or "")),
        ca=ca,
    )


EXEC_MODULE = "actions.cloud.token"
"""Our own exec plugin, for programs that are not us."""
REFRESH_SECONDS = 600.0
_PREFIX = "k8s-aws-v1."
_SIGNED_FOR_SECONDS = 60
_ACTION = "eks:GetToken"
_QUERY = "Action=GetCallerIdentity&Version=2011-06-15"


class TokenRequest(NamedTuple):
    """The cluster, region and profile that an exec plugin of a kubeconfig names."""

    cluster: str
    region: str
    profile: str


class EksToken:
    """The token of one cluster, renewed every ten minutes. Used from one loop.

    Args:
        cluster: Its name, not its ARN.
        session: Whose credentials, in the cluster's region.
        clock: For the token's age.
    """

    def __init__(self, cluster: str, session: AwsSession, *, clock: Clock | None = None) -> None:
        self.cluster = cluster
        self._session = session
        self._clock = clock or SystemClock()
        self._lock = asyncio.Lock()
        self._token = ""
        self._made_at = 0.0

    async def token(self) -> str:
        """A token that is good for at least five minutes. Callers at the same time get the same one.

        Raises:
            AccessError: There are no credentials.
            ConfigError: No such profile, or no region.
        """
        async with self._lock:
            if not self._token or self._clock.monotonic() - self._made_at >= REFRESH_SECONDS:
                made_at = self._clock.monotonic()
                self._token = await self._session.offload(lambda: _signed(self._session, self.cluster), action=_ACTION)
                self._made_at = made_at
            return self._token


def token_factory(
    exec_argv: Sequence[str], *, profile: str = "", region: str = "", clock: Clock | None = None
) -> EksToken | None:
    """Return the replacement of an exec plugin in this process.

    Args:
        exec_argv: Command and arguments as the kubeconfig names them.
        profile: Where they name none.
        region: Where they name none.
        clock: For the token's age.

    Returns:
        The source of tokens; `None` if the command is another, or does more than we do (a role, an outpost).
    """
    request = request_of(exec_argv)
    if request is None:
        return None
    session = AwsSession(profile=request.profile or profile, region=request.region or region, threads=1)
    return EksToken(request.cluster, session, clock=clock)


def request_of(exec_argv: Sequence[str]) -> TokenRequest | None:
    """Recognise `aws eks get-token`, `aws-iam-authenticator token` and our own plugin; `None` for anything else.

    An option that is there twice counts the first time.
    """
    if not exec_argv:
        return None
    is_ours, rest = _own_arguments(exec_argv)
    parsed = _options_of(rest)
    if parsed is None:
        return None
    words, options = parsed
    match "" if is_ours else PurePosixPath(exec_argv[0]).name, words:
        case "", []:
            cluster = options.pop("--cluster-name", "")
        case "aws", ["eks", "get-token"]:
            cluster = options.pop("--cluster-name", "")
        case "aws-iam-authenticator", ["token"]:
            cluster = options.pop("--cluster-id", "") or options.pop("-i", "")
        case _:
            return None
    region, profile = options.pop("--region", ""), options.pop("--profile", "")
    is_plain = options.pop("--output", "json") == "json"
    if not cluster or not is_plain or options:
        return None
    return TokenRequest(cluster, region, profile)


def _own_arguments(exec_argv: Sequence[str]) -> tuple[bool, Sequence[str]]:
    """Return whether the command is our own plugin, of whichever installation, and its arguments."""
    words = list(exec_argv[1:])
    if words[:1] == ["-P"]:
        del words[0]
    return (True, words[2:]) if words[:2] == ["-m", EXEC_MODULE] else (False, exec_argv[1:])


def _options_of(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]] | None:
    words: list[str] = []
    options: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("-"):
            words.append(argument)
            continue
        name, equals, value = argument.partition("=")
        if not equals:
            following = next(rest, None)
            if following is None:
                return None
            value = following
        options.setdefault(name, value)
    return words, options


def _signed(session: AwsSession, cluster: str) -> str:
    from botocore.model import ServiceId
    from botocore.regions import EndpointResolver
    from botocore.signers import RequestSigner

    raw = session.raw()
    credentials = raw.get_credentials()
    if credentials is None:
        raise AccessError("There are no AWS credentials to make a token from.", hint="Log in, or set AWS_PROFILE.")
    if not raw.region_name:
        raise ConfigError(f"No AWS region is known for the cluster {cluster}.", hint="Give one with --region.")
    # The cluster checks the token with the region's own host, wherever AWS_ENDPOINT_URL sends our own calls.
    resolver = EndpointResolver(session.core().get_data("endpoints"))
    endpoint = resolver.construct_endpoint("sts", raw.region_name)
    if endpoint is None:
        raise ConfigError(f"AWS has no region {raw.region_name}.", hint="Correct --region.")
    signer = RequestSigner(ServiceId("STS"), raw.region_name, "sts", "v4", credentials, raw.events)
    url = signer.generate_presigned_url(
        {
            "method": "GET",
            "url": f"https://{endpoint['hostname']}/?{_QUERY}",
            "body": {},
            "headers": {"x-k8s-aws-id": cluster},
            "context": {},
        },
        region_name=raw.region_name,
        expires_in=_SIGNED_FOR_SECONDS,
        operation_name="",
    )
    return _PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
