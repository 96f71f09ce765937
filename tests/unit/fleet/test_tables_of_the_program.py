"""The instance table and the price book, and what makes them refuse a file."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from actions.base.errors import FormatError, InputError
from actions.base.files import asset
from actions.fleet.instance_types import GIB, InstanceTable
from actions.fleet.prices import PriceBook

PRICE_HEADER = "instance_type,region,capacity_type,usd_per_hour,source,as_of\n"


def test_a_gpu_instance_is_as_ec2_describes_it() -> None:
    kind = InstanceTable.load().find("g5.12xlarge")
    assert kind is not None
    assert (kind.vcpu, kind.memory_bytes, kind.gpus, kind.neuron_devices) == (48, 192 * GIB, 4, 0)
    assert (kind.accelerator_model, kind.efa_interfaces, kind.max_pods) == ("A10G", 1, 737)


def test_neuron_devices_are_not_neuron_cores() -> None:
    kind = InstanceTable.load().find("trn1.32xlarge")
    assert kind is not None
    assert (kind.neuron_devices, kind.neuron_cores, kind.gpus, kind.efa_interfaces) == (16, 32, 0, 8)


def test_an_empty_cell_is_unknown_and_not_zero() -> None:
    kind = InstanceTable.load().find("trn2.3xlarge")
    assert kind is not None
    assert kind.efa_interfaces is None
    assert kind.max_pods is None


def test_a_type_that_is_not_listed_is_none() -> None:
    assert InstanceTable.load().find("zz9.plural") is None


def test_every_instance_type_is_known_once_and_has_memory() -> None:
    table = InstanceTable.load()
    assert len(table) == 114
    assert all(kind.vcpu > 0 and kind.memory_bytes > 0 for kind in table)


def test_a_price_tells_its_source_and_date() -> None:
    price = PriceBook.load().price_of("g5.12xlarge", "us-west-2")
    assert price is not None
    assert price.usd_per_hour == Decimal("5.672")
    assert price.as_of == date(2026, 1, 21)
    assert price.source


@pytest.mark.parametrize(
    ("instance_type", "region", "capacity_type"),
    [
        ("g5.12xlarge", "eu-west-1", "on-demand"),
        ("g5.12xlarge", "us-west-2", "spot"),
        ("g5.12xlarge", "us-west-2", "reserved"),
        ("g5.12xlarge", "us-west-2", ""),
        ("p5e.48xlarge", "us-west-2", "on-demand"),
        ("zz9.plural", "us-west-2", "on-demand"),
    ],
)
def test_what_no_source_says_has_no_price(instance_type: str, region: str, capacity_type: str) -> None:
    assert PriceBook.load().price_of(instance_type, region, capacity_type) is None


def test_a_capacity_block_has_its_own_price() -> None:
    book = PriceBook.load()
    block, on_demand = (
        book.price_of("p5.48xlarge", "us-west-2", "capacity-block"),
        book.price_of("p5.48xlarge", "us-west-2"),
    )
    assert block is not None
    assert on_demand is not None
    assert (block.usd_per_hour, on_demand.usd_per_hour) == (Decimal("41.528"), Decimal("55.04"))


def test_a_listed_zero_is_an_unknown_price(tmp_path: Path) -> None:
    table = tmp_path / "prices.csv"
    table.write_text(PRICE_HEADER + "p6.big,us-west-2,on-demand,0.0000,list,2026-01-01\n")
    assert PriceBook.load(table).price_of("p6.big", "us-west-2") is None


def test_a_source_without_a_date_stays_without_one(tmp_path: Path) -> None:
    table = tmp_path / "prices.csv"
    table.write_text(PRICE_HEADER + "m5.large,us-west-2,on-demand,0.1,list,\n")
    price = PriceBook.load(table).price_of("m5.large", "us-west-2")
    assert price is not None
    assert price.as_of is None


@pytest.mark.parametrize(
    "row", ["a,b,c,cheap,list,2026-01-01", "a,b,c,-1,list,2026-01-01", "a,b,c,nan,list,", "a,b,c,1,list,soon", "a,b"]
)
def test_a_damaged_price_is_an_error_with_its_line(tmp_path: Path, row: str) -> None:
    table = tmp_path / "prices.csv"
    table.write_text(f"{PRICE_HEADER}{row}\n")
    with pytest.raises(FormatError, match=r"prices\.csv:2"):
        PriceBook.load(table)


@pytest.mark.parametrize(
    ("cells", "wrong"),
    [
        ("4,16,nvidia,T9,1,24", "accelerator is 'nvidia', not gpu or neuron; leave it empty for none"),
        ("4,much,gpu,T9,1,24", "memory_gib is 'much', not a number"),
        ("4,16,gpu,T9,1,nan", "accelerator_memory_gib is 'nan', not a number"),
        ("four,16,gpu,T9,1,24", "vcpu is 'four', not a whole number"),
    ],
)
def test_a_damaged_instance_type_is_named_with_its_line_and_column(tmp_path: Path, cells: str, wrong: str) -> None:
    header = asset("instances/ec2.csv").read_text(encoding="utf-8").partition("\n")[0]
    table = tmp_path / "types.csv"
    table.write_text(f"{header}\ng9.xlarge,{cells},0,0,29,page,2026-09-01\n")
    with pytest.raises(FormatError, match=rf"^types\.csv:2: {wrong}\.$"):
        InstanceTable.load(table)


def test_a_table_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"gone\.csv cannot be read"):
        InstanceTable.load(tmp_path / "gone.csv")


def test_numbers_of_instances_are_read_by_type() -> None:
    types = InstanceTable.load()
    assert types.counts_in("g6e.12xlarge=2, ml.p5.48xlarge=1") == {"g6e.12xlarge": 2, "ml.p5.48xlarge": 1}
    assert types.counts_in("") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("g6e.12xlrge=2", "There is no instance type 'g6e.12xlrge' in the table. The nearest are g6e.12xlarge, "),
        ("ml.p5.48xlrge=2", "The nearest are p5.48xlarge, "),
        ("g6e.12xlarge", "'g6e.12xlarge' is not a type of instances with their number, 1 to 100."),
        ("g6e.12xlarge=0", "is not a type of instances"),
        ("g6e.12xlarge=101", "is not a type of instances"),
    ],
)
def test_what_is_no_number_of_instances_is_one_sentence(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        InstanceTable.load().counts_in(text)
    assert said in caught.value.sentence()
