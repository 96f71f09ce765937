"""Sums of Kubernetes quantities, exact, in the canonical form that Kubernetes writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

_BINARY = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50}
_DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}


def total(amounts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Sums of quantities by name."""
    sums: dict[str, Decimal] = {}
    binary: dict[str, bool] = {}
    for one in amounts:
        for name, quantity in one.items():
            sums[name] = sums.get(name, Decimal(0)) + value_of(quantity)
            binary.setdefault(name, str(quantity)[-2:] in _BINARY)
    return {name: _written(amount, is_binary=binary[name]) for name, amount in sums.items()}


def value_of(quantity: object) -> Decimal:
    """The number behind a quantity.

    Raises:
        ArithmeticError: It is none.
    """
    text = str(quantity)
    if text[-2:] in _BINARY:
        return Decimal(text[:-2]) * _BINARY[text[-2:]]
    if text[-1:] in _DECIMAL:
        return Decimal(text[:-1]) * _DECIMAL[text[-1]]
    return Decimal(text[:-1]) / 1000 if text.endswith("m") else Decimal(text)


def _written(amount: Decimal, *, is_binary: bool) -> str:
    if amount != int(amount):
        return f"{int(amount * 1000)}m"
    whole = int(amount)
    units = _BINARY if is_binary else _DECIMAL
    unit = max((unit for unit, size in units.items() if whole and whole % size == 0), key=units.__getitem__, default="")
    return f"{whole // units[unit]}{unit}" if unit else str(whole)
