"""`python -m actions.cloud.token --cluster-name NAME --region REGION`: an exec plugin that prints an EKS token.

It stands in for `aws eks get-token`, of which it takes the options and prints the form, so that neither Terraform's
Helm provider nor kubectl needs the AWS CLI. Credentials are those of the environment.

Source: Kubernetes, `client.authentication.k8s.io/v1beta1` ExecCredential; AWS CLI 2 `eks get-token`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from datetime import timedelta

import msgspec

from actions.base.clock import Clock, SystemClock, format_rfc3339
from actions.base.errors import ConsoleError, UsageError
from actions.cloud.aws_session import AwsSession
from actions.cloud.eks import EXEC_MODULE, EksToken, TokenRequest, request_of

GOOD_FOR = timedelta(minutes=14)
"""Time after which another token is fetched: a minute less than the cluster takes one for."""
_FAILED = 1


async def exec_credential(request: TokenRequest, clock: Clock) -> bytes:
    """Return the ExecCredential with a token of the cluster, as JSON.

    Args:
        request: The cluster, its region, and the profile if it is not the environment's.
        clock: For its expiry.

    Raises:
        AccessError: There are no credentials.
        ConfigError: No such profile, or no region.
    """
    session = AwsSession(profile=request.profile, region=request.region, threads=1)
    try:
        token = await EksToken(request.cluster, session, clock=clock).token()
    finally:
        session.close()
    document = {
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "spec": {},
        "status": {"expirationTimestamp": format_rfc3339(clock.now() + GOOD_FOR), "token": token},
    }
    return msgspec.json.encode(document)


def main(arguments: Sequence[str]) -> int:
    """Print the credential. Returns the exit code; the reason of a failure is one line on stderr."""
    try:
        request = request_of([sys.executable, "-m", EXEC_MODULE, *arguments])
        if request is None:
            raise UsageError("The arguments are --cluster-name NAME, --region REGION and --profile PROFILE.")
        credential = asyncio.run(exec_credential(request, SystemClock()))
    except ConsoleError as error:
        sys.stderr.write(f"{error.sentence()}\n")
        return _FAILED
    sys.stdout.buffer.write(credential + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
