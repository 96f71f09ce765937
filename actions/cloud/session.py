"""One set of AWS credentials, and calls made with it on threads of their own.

botocore reads profile, region, proxy and `AWS_ENDPOINT_URL` from the environment as the AWS CLI does.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from actions.base.errors import UnreachableError
from actions.base.offload import Offload
from actions.base.readonly import refuse_if_readonly
from actions.cloud.errors import error_of

T = TypeVar("T")

_CONNECT_SECONDS = 5
_READ_SECONDS = 20
_ATTEMPTS = 3
_DEADLINE_SECONDS = 60.0
_LOOKING = ("describe_", "list_", "get_", "batch_get_")
"""How the operations begin that change nothing."""


class AwsSession:
    """Credentials of one profile in one region. Nothing is read or imported before the first call.

    Args:
        profile: Of `~/.aws/config`; empty for what the environment says.
        region: Empty for what profile or environment say.
        threads: Calls at once.
    """

    def __init__(self, *, profile: str = "", region: str = "", threads: int = 2) -> None:
        self.profile = profile
        self._region = region
        self._pool = Offload("aws", threads=threads)
        self._lock = threading.Lock()
        self._core: Any = None
        self._session: Any = None
        self._clients: dict[tuple[str, str], Any] = {}

    async def call(self, service: str, operation: str, *, region: str = "", **parameters: object) -> dict[str, Any]:
        """Make one call.

        Args:
            service: As boto3 names it: `eks`.
            operation: As boto3 names the method: `describe_cluster`.
            region: Instead of the session's.
            parameters: Of the operation.

        Raises:
            AccessError: No credentials, expired ones, or no permission.
            UnreachableError: No answer, or a busy one.
            MissingError, ConflictError, RefusedError: AWS said so; or this process is read-only.
            ConfigError: Profile, region or parameters are wrong.
        """
        if not operation.startswith(_LOOKING):
            refuse_if_readonly(f"{service}:{_iam_name(operation)}")

        def ask() -> dict[str, Any]:
            answer: dict[str, Any] = getattr(self._client(service, region), operation)(**parameters)
            return answer

        return await self.offload(ask, action=f"{service}:{_iam_name(operation)}")

    async def offload(self, work: Callable[[], T], *, action: str) -> T:
        """Run blocking `work` with botocore on the session's threads.

        Args:
            work: May raise botocore's errors.
            action: For messages.

        Raises:
            ConsoleError: As `call`.
        """
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS):
                return await self._pool.call(_converted, work, action)
        except TimeoutError as error:
            raise UnreachableError(f"AWS did not answer {action} in {_DEADLINE_SECONDS:.0f} s.") from error

    async def region(self) -> str:
        """The region in effect; empty if none is configured.

        Raises:
            ConfigError: The profile does not exist.
        """
        return await self.offload(lambda: str(self.raw().region_name or ""), action="region")

    def raw(self) -> Any:
        """boto3's own session. Only on this session's threads: making it reads files."""
        with self._lock:
            if self._session is None:
                import boto3
                import botocore.session

                self._core = botocore.session.Session(profile=self.profile or None)
                region = self._region or os.environ.get("AWS_REGION")  # which botocore passes over, unlike the AWS CLI
                self._session = boto3.Session(region_name=region or None, botocore_session=self._core)
            return self._session

    def core(self) -> Any:
        """botocore's session below boto3's. Only on this session's threads."""
        self.raw()
        return self._core

    def close(self) -> None:
        """Take no more calls."""
        self._pool.close()

    def _client(self, service: str, region: str) -> Any:
        session = self.raw()
        with self._lock:
            client = self._clients.get((service, region))
            if client is None:
                client = session.client(service, region_name=region or None, config=_config())
                self._clients[service, region] = client
            return client


def _config() -> Any:
    from botocore.config import Config

    return Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        user_agent_extra="eksml-tui",
    )


def _converted(work: Callable[[], T], action: str) -> T:
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    try:
        return work()
    except (BotoCoreError, ClientError, ResponseParserError) as error:
        raise error_of(error, action=action) from error


def _iam_name(operation: str) -> str:
    return "".join(word.capitalize() for word in operation.split("_"))
