"""A little AWS on this machine: DescribeCluster and GetCallerIdentity."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

CA = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="

_IDENTITY = """<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>
<Arn>arn:aws:iam::111122223333:user/op</Arn><UserId>AIDA</UserId><Account>111122223333</Account>
</GetCallerIdentityResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></GetCallerIdentityResponse>"""

_REFUSAL = """<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>{code}</Code><Message>{message}</Message></Error><RequestId>1</RequestId></ErrorResponse>"""


class FakeAws:
    """A fake AWS: its answers, and the requests that it got."""

    def __init__(self) -> None:
        self.clusters: dict[str, dict[str, object]] = {
            "bionemo": {
                "name": "bionemo",
                "arn": "arn:aws:eks:us-west-2:111122223333:cluster/bionemo",
                "status": "ACTIVE",
                "version": "1.32",
                "endpoint": "https://ABC.gr7.us-west-2.eks.amazonaws.com",
                "certificateAuthority": {"data": CA},
            }
        }
        self.eks_refusal: tuple[int, str, str] | None = None
        """Status, code and message instead of an answer."""
        self.sts_refusal: tuple[int, str, str] | None = None
        self.asked: list[str] = []
        self.url = ""

    async def describe_cluster(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        self.asked.append(f"{request.headers.get('User-Agent', '')} {name}")
        if self.eks_refusal:
            status, code, message = self.eks_refusal
            return _eks_error(status, code, message)
        if name not in self.clusters:
            return _eks_error(404, "ResourceNotFoundException", f"No cluster found for name: {name}.")
        return web.json_response({"cluster": self.clusters[name]})

    async def sts(self, request: web.Request) -> web.Response:
        self.asked.append(str((await request.post()).get("Action", "")))
        if self.sts_refusal:
            status, code, message = self.sts_refusal
            text = _REFUSAL.format(code=code, message=message)
            return web.Response(status=status, text=text, content_type="text/xml")
        return web.Response(text=_IDENTITY, content_type="text/xml")


def _eks_error(status: int, code: str, message: str) -> web.Response:
    return web.json_response({"message": message}, status=status, headers={"x-amzn-errortype": code})


@asynccontextmanager
async def fake_aws() -> AsyncIterator[FakeAws]:
    """Serve it on a free port of this machine."""
    fake = FakeAws()
    app = web.Application()
    app.router.add_get("/clusters/{name}", fake.describe_cluster)
    app.router.add_post("/", fake.sts)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    fake.url = f"http://{host}:{port}"
    try:
        yield fake
    finally:
        await runner.cleanup()
