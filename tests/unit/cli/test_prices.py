"""`prices refresh`, `--prices` and the plan, against answers in the form of the AWS Price List."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import parse_qs

import pytest

from actions.cloud.aws_session import AwsSession
from actions.cloud.pricing import fetch_service_prices
from actions.fleet.price_file import read_price_file
from actions.fleet.prices import COLUMNS, PriceBook, choose_price_file
from tui.cli.main import main

ANSWERS = Path(__file__).parents[2] / "fixtures" / "pricing"
HEADER = ",".join(COLUMNS) + "\n"
SPOT = """<DescribeSpotPriceHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>1</requestId>
<spotPriceHistorySet>{items}</spotPriceHistorySet><nextToken></nextToken></DescribeSpotPriceHistoryResponse>"""
SPOT_ITEM = """<item><instanceType>p5.48xlarge</instanceType><productDescription>Linux/UNIX</productDescription>
<spotPrice>{usd}</spotPrice><timestamp>2026-11-22T10:00:00.000Z</timestamp>
<availabilityZone>{zone}</availabilityZone></item>"""
DENIED = """<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>no</Message></Error></Errors>
<RequestID>1</RequestID></Response>"""


class PriceList(BaseHTTPRequestHandler):
    """The price list of a region, one product a page, and its spot prices; filters count."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[list[dict[str, Any]]] = []
    may_see_spot: ClassVar[bool] = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("X-Amz-Target") == "AWSPriceListService.GetProducts":
            self.answer(200, "application/x-amz-json-1.1", json.dumps(self.products(json.loads(body))))
            return
        assert parse_qs(body.decode())["Action"] == ["DescribeSpotPriceHistory"]
        zones = {"us-west-2a": "19.5", "us-west-2b": "21.25"}
        items = "".join(SPOT_ITEM.format(zone=zone, usd=usd) for zone, usd in zones.items())
        status, text = (200, SPOT.format(items=items)) if self.may_see_spot else (403, DENIED)
        self.answer(status, "text/xml", text)

    def products(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(asked)
        wanted = {entry["Field"]: entry["Value"] for entry in asked["Filters"]}
        assert {entry["Type"] for entry in asked["Filters"]} == {"TERM_MATCH"}
        found = [
            product
            for product in json.loads((ANSWERS / "us_west_2.json").read_text())[asked["ServiceCode"]]
            if wanted.items() <= {**product["attributes"], "productFamily": product["productFamily"]}.items()
        ]
        at = int(asked.get("NextToken", "0"))
        page = {"FormatVersion": "aws_v1", "PriceList": [in_its_form(product) for product in found[at : at + 1]]}
        return page | ({"NextToken": str(at + 1)} if at + 1 < len(found) else {})

    def answer(self, status: int, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_arguments: object) -> None:
        pass


def in_its_form(product: dict[str, Any]) -> str:
    dimension = {"unit": product["unit"], "beginRange": "0", "endRange": "Inf", "pricePerUnit": {"USD": product["usd"]}}
    return json.dumps(
        {
            "product": {"productFamily": product["productFamily"], "attributes": product["attributes"], "sku": "S"},
            "serviceCode": "-",
            "terms": {"OnDemand": {"S.JRTCKXETXF": {"priceDimensions": {"S.JRTCKXETXF.6YS6EN2CT7": dimension}}}},
            "version": "20261101000000",
            "publicationDate": "2026-11-01T00:00:00Z",
        }
    )


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[PriceList]]:
    """An endpoint with the price list, static credentials, settings of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), PriceList)
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    PriceList.asked.clear()
    PriceList.may_see_spot = True
    yield PriceList
    server.shutdown()
    server.server_close()
    choose_price_file(None)


def rows(file: Path) -> dict[tuple[str, str, str], str]:
    return {row.key: row.usd for row in read_price_file(file)}


def test_a_refresh_writes_what_the_plan_needs_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prices", "refresh", "us-west-2"]) == 0

    file = tmp_path / "config" / "eksml-tui" / "prices.csv"
    assert rows(file) == {
        ("p5.48xlarge", "us-west-2", "on-demand"): "55.04",
        ("m5.xlarge", "us-west-2", "on-demand"): "0.192",
        ("p5.48xlarge", "us-west-2", "spot"): "21.25",
        ("eks-control-plane-standard", "us-west-2", ""): "0.1",
        ("eks-control-plane-extended", "us-west-2", ""): "0.6",
        ("nat-gateway", "us-west-2", ""): "0.045",
        ("nat-gateway-traffic", "us-west-2", ""): "0.045",
        ("public-ipv4", "us-west-2", ""): "0.005",
        ("vpc-endpoint", "us-west-2", ""): "0.01",
        ("load-balancer-application", "us-west-2", ""): "0.0225",
        ("load-balancer-network", "us-west-2", ""): "0.0225",
        ("load-balancer-classic", "us-west-2", ""): "0.025",
        ("ebs-gp3", "us-west-2", ""): "0.08",
        ("ecr-storage", "us-west-2", ""): "0.1",
        ("cloudwatch-logs", "us-west-2", ""): "0.5",
        ("fsx-lustre-ssd-125", "us-west-2", ""): "0.145",
        ("fsx-lustre-ssd-500", "us-west-2", ""): "0.34",
    }
    p5 = PriceBook.usual().price_of("p5.48xlarge", "us-west-2")
    assert p5 is not None
    assert (p5.source, str(p5.as_of)) == ("AWS price list AmazonEC2", "2026-11-01")
    assert (
        "2 on-demand, 1 spot, 14 of 17 services; not listed: fsx-lustre-ssd-1000, fsx-lustre-ssd-250, s3-standard"
        in (capsys.readouterr().out)
    )


def test_the_query_has_the_filters_that_leave_one_price(account: type[PriceList]) -> None:
    main(["prices", "refresh", "us-west-2", "--no-spot"])
    asked = next(
        query for query in account.asked if any(part["Value"] == "Compute Instance" for part in query["Filters"])
    )
    assert {part["Field"]: part["Value"] for part in asked["Filters"]} == {
        "regionCode": "us-west-2",
        "preInstalledSw": "NA",
        "operatingSystem": "Linux",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "tenancy": "Shared",
        "productFamily": "Compute Instance",
    }
    assert asked["MaxResults"] == 100


async def test_the_first_word_of_a_usage_type_is_a_region_only_where_regions_have_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usage = {"LoadBalancerUsage": "0.0225", "TS-LoadBalancerUsage": "0.0056", "USE1-LCUUsage": "0.008"}
    attributes = {"regionCode": "us-east-1", "operation": "LoadBalancing:Application"}
    listed = [
        {"productFamily": "", "attributes": {**attributes, "usagetype": name}, "unit": "Hrs", "usd": usd}
        for name, usd in usage.items()
    ]

    async def call(_session: AwsSession, _service: str, _operation: str, **asked: Any) -> dict[str, Any]:
        return {"PriceList": [in_its_form(one) for one in listed] if asked["ServiceCode"] == "AWSELB" else []}

    monkeypatch.setattr(AwsSession, "call", call)
    found = {quote.key: str(quote.usd) for quote in await fetch_service_prices(AwsSession(), "us-east-1")}
    assert found["LoadBalancerUsage:Application"] == "0.0225"
    assert found["TS-LoadBalancerUsage:Application"] == "0.0056"
    assert found["LCUUsage:Application"] == "0.008"


def test_rows_of_the_operator_stay_and_win(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(
        HEADER
        + "m5.xlarge,us-west-2,on-demand,0.1,hour,our contract,2026-01-01\n"
        + "*,*,,7,percent off,EDP,2026-01-01\n"
        + "p5.48xlarge,us-west-2,on-demand,99,hour,AWS price list AmazonEC2,2025-01-01\n"
        + "p5.48xlarge,us-east-1,on-demand,98,hour,AWS price list AmazonEC2,2025-01-01\n"
    )
    assert main(["prices", "refresh", "us-west-2", "--prices", str(file)]) == 0

    found = rows(file)
    assert found["m5.xlarge", "us-west-2", "on-demand"] == "0.1"
    assert found["*", "*", ""] == "7"
    assert found["p5.48xlarge", "us-west-2", "on-demand"] == "55.04"
    assert found["p5.48xlarge", "us-east-1", "on-demand"] == "98"


def test_without_the_right_to_spot_prices_the_rest_is_written(
    account: type[PriceList], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    account.may_see_spot = False
    assert main(["prices", "refresh", "us-west-2"]) == 0
    assert "ec2:DescribeSpotPriceHistory" in capsys.readouterr().err
    assert len(rows(tmp_path / "config" / "eksml-tui" / "prices.csv")) == 16


def test_a_wrong_file_is_refused_before_aws_is_asked(
    account: type[PriceList], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(HEADER + "m5.xlarge,us-west-2,on-demand,cheap,hour,x,\n")
    assert main(["prices", "refresh", "us-west-2", "--prices", str(file)]) == 2
    assert "mine.csv:2: 'cheap' is not a price." in capsys.readouterr().err
    assert account.asked == []
    assert "cheap" in file.read_text()


@pytest.mark.parametrize(("words", "complaint"), [(["cn-north-1"], "in CNY"), ([], "No region is known")])
def test_a_region_that_cannot_be_asked_is_one_sentence(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prices", "refresh", *words]) != 0
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_plan_takes_the_prices_of_a_file(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(HEADER + "g5.12xlarge,us-west-2,on-demand,1,hour,our contract,2026-01-01\n")
    plan, given = ["plan", "bionemo-esm1nv"], ["--prices", str(file)]
    assert main([*given, *plan] if place == "before" else [*plan, *given]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("2 × g5.12xlarge "))
    assert line.split()[3:] == ["2.000", "our", "contract", "2026-01-01"]


def test_a_plan_refuses_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "bionemo-esm1nv", "--prices", str(tmp_path / "gone.csv")]) == 2
    assert "gone.csv cannot be read" in capsys.readouterr().err


def test_a_plan_in_json_has_each_rate_with_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "bionemo-esm1nv", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    rates = {rate["name"]: rate for rate in document["stages"][-1]["rates"]}
    assert Decimal(rates["2 × g5.12xlarge"]["usd_per_hour"]) == Decimal("11.344")
    assert rates["2 × g5.12xlarge"]["as_of"] == "2026-01-21"
    assert document["usage"] == [{"title": "NAT gateway traffic", "usd": "0.045", "unit": "GB", "stage": "network"}]
