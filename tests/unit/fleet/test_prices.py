"""The price book: services, the operator's own file over the shipped tables, discounts, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from actions.base.errors import FormatError, UsageError
from actions.fleet.instance_types import InstanceTable
from actions.fleet.prices import COLUMNS, SERVICES, PriceBook, choose_price_file, market_of

HEADER = ",".join(COLUMNS) + "\n"


@pytest.fixture(autouse=True)
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The operator's file in the settings folder; not there yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "eksml-tui").mkdir()
    yield tmp_path / "eksml-tui" / "prices.csv"
    choose_price_file(None)


def test_every_service_has_a_price_with_a_source_where_the_blueprints_run() -> None:
    book = PriceBook.load()
    for region in ("us-east-1", "us-west-2"):
        for service, unit in SERVICES.items():
            price = book.service_price(service, region)
            assert price is not None, service
            assert (price.unit, bool(price.source)) == (unit, True)


def test_what_has_one_price_in_all_regions_is_known_in_all() -> None:
    book = PriceBook.load()
    control_plane = book.service_price("eks-control-plane-extended", "us-east-2")
    assert control_plane is not None
    assert control_plane.usd == Decimal("0.60")
    assert book.service_price("nat-gateway", "us-east-2") is None


def test_core_nodes_disks_and_trainium_have_a_price_in_each_region_that_the_trainium_systems_offer() -> None:
    book = PriceBook.load()
    for region in ("us-west-2", "us-east-1", "us-east-2"):
        for kind in ("m5.2xlarge", "m5.4xlarge", "m5.8xlarge", "trn1.32xlarge", "trn1n.32xlarge"):
            assert book.price_of(kind, region) is not None, (kind, region)
        assert book.service_price("ebs-gp3", region) is not None


@pytest.mark.parametrize(
    ("written", "market"),
    [("ON_DEMAND", "on-demand"), ("CAPACITY_BLOCK", "capacity-block"), ("spot", "spot"), ("", "")],
)
def test_a_market_has_one_name(written: str, market: str) -> None:
    assert market_of(written) == market


def test_the_operators_file_wins_and_the_rest_stays(own_file: Path) -> None:
    own_file.write_text(
        HEADER
        + "g5.12xlarge,us-west-2,on-demand,4,hour,our contract,2026-11-01\n"
        + "trn1.32xlarge,us-east-2,on-demand,21.5,hour,price list,2026-11-01\n"
        + "nat-gateway,us-east-2,,0.045,hour,price list,2026-11-01\n"
    )
    book = PriceBook.usual()
    ours, other = book.price_of("g5.12xlarge", "us-west-2"), book.price_of("m5.xlarge", "us-west-2")
    assert (ours and ours.usd_per_hour, ours and ours.source) == (Decimal(4), "our contract")
    assert other is not None
    assert book.price_of("trn1.32xlarge", "us-east-2") is not None
    assert book.service_price("nat-gateway", "us-east-2") is not None


def test_a_chosen_file_replaces_that_of_the_settings(own_file: Path, tmp_path: Path) -> None:
    own_file.write_text(HEADER + "a.big,r,on-demand,1,hour,settings,\n")
    chosen = tmp_path / "mine.csv"
    chosen.write_text(HEADER + "b.big,r,on-demand,1,hour,mine,\n")
    choose_price_file(chosen)
    assert PriceBook.usual().price_of("a.big", "r") is None
    assert PriceBook.usual().price_of("b.big", "r") is not None


def test_discounts_are_taken_off_one_after_the_other_and_named(own_file: Path) -> None:
    own_file.write_text(
        HEADER
        + "*,*,,10,percent off,EDP,2026-01-01\n"
        + "p5*,us-west-2,on-demand,50,percent off,savings plan,2026-01-01\n"
    )
    book = PriceBook.usual()
    p5, block = book.price_of("p5.48xlarge", "us-west-2"), book.price_of("p5.48xlarge", "us-west-2", "capacity-block")
    nat = book.service_price("nat-gateway", "us-east-1")
    assert p5
    assert p5.usd_per_hour == Decimal("55.04") * Decimal("0.45")
    assert p5.source.endswith(", less 10 % (EDP), less 50 % (savings plan)")
    assert block
    assert block.usd_per_hour == Decimal("41.528") * Decimal("0.9")
    assert nat
    assert nat.usd == Decimal("0.0405")


def test_the_layout_of_the_shipped_table_is_read_too(own_file: Path) -> None:
    own_file.write_text(
        "instance_type,region,capacity_type,usd_per_hour,source,as_of\np9.big,eu-west-1,on-demand,7,list,2026-01-01\n"
    )
    assert PriceBook.usual().price_of("p9.big", "eu-west-1") is not None


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("a,b,on-demand,cheap,hour,s,", "'cheap' is not a price"),
        ("a,b,on-demand,1,fortnight,s,", "'fortnight' is not a unit"),
        ("a,b,on-demand,1,GB-month,s,", "by the hour"),
        ("ebs-gp3,b,,1,hour,s,", "by the GB-month"),
        ("*,*,,100,percent off,s,", "leaves no price"),
        ("a,b,on-demand,1,hour,s,soon", "'soon' is not a date"),
        ("a,b", "2 cells where the header has 7"),
    ],
)
def test_a_wrong_row_is_one_sentence_with_file_and_line(own_file: Path, row: str, complaint: str) -> None:
    own_file.write_text(f"{HEADER}{row}\n")
    with pytest.raises(UsageError, match=r"prices\.csv:2") as error:
        PriceBook.usual()
    assert complaint in error.value.sentence()


def test_a_chosen_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    choose_price_file(tmp_path / "gone.csv")
    with pytest.raises(UsageError, match=r"gone\.csv cannot be read"):
        PriceBook.usual()


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    table = tmp_path / "prices.csv"
    table.write_text("item,region,usd\na,b,1\n")
    with pytest.raises(FormatError, match="the column"):
        PriceBook.load(table)


@pytest.mark.parametrize(
    "cell", ["x" * 140_000, "1e999999999", "1e400", "-1e400", "9" * 5000, "1e-999999999", "nan", "\u0661"]
)
def test_no_cell_of_a_file_is_a_traceback(cell: str, tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(HEADER + f"g5.12xlarge,us-west-2,on-demand,{cell},hour,mine,2026-11-01\n")
    if cell == "\u0661":
        PriceBook.load(file)
        return
    with pytest.raises(FormatError) as caught:
        PriceBook.load(file)
    assert "prices.csv:" in caught.value.sentence()
    assert len(caught.value.sentence()) < 400


def test_a_table_without_an_end_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").symlink_to("/dev/zero")
    with pytest.raises(FormatError, match="it is not a file"):
        PriceBook.load(tmp_path / "prices.csv")


def test_a_type_of_sagemaker_has_the_price_and_the_hardware_of_ec2_and_says_so() -> None:
    book = PriceBook.load()
    price, ours = book.price_of("p5.48xlarge", "us-west-2"), book.price_of("ml.p5.48xlarge", "us-west-2", "")
    assert price is not None
    assert ours is not None
    assert (ours.usd_per_hour, ours.source) == (price.usd_per_hour, f"{price.source}, of EC2 and not of SageMaker")
    assert book.price_of("ml.p5.48xlarge", "us-west-2", "spot") is None
    kind = InstanceTable.load().find("ml.p5.48xlarge")
    assert kind is not None
    assert kind.gpus == 8
