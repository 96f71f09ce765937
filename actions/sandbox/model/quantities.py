"""Kubernetes quantities, exact, in the canonical form that an API server stores.

Source: k8s.io/apimachinery `pkg/api/resource/quantity.go`: the largest unit that leaves a whole number, in the family
(powers of 1024, or of 1000) in which the quantity was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from functools import lru_cache

_BINARY = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50}
_DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_MEMO_SIZE = 1024


def value_of(quantity: object) -> Decimal:
    """Return the number of a quantity.

    Raises:
        ArithmeticError: It is none.
    """
    text = str(quantity)
    if text[-2:] in _BINARY:
        return Decimal(text[:-2]) * _BINARY[text[-2:]]
    if text[-1:] in _DECIMAL:
        return Decimal(text[:-1]) * _DECIMAL[text[-1]]
    return Decimal(text[:-1]) / 1000 if text.endswith("m") else Decimal(text)


def is_binary(quantity: object) -> bool:
    """Return whether it is written in powers of 1024."""
    return str(quantity)[-2:] in _BINARY


def written(amount: Decimal, *, in_binary: bool) -> str:
    """Return a number as a quantity; thousandths where it is not whole."""
    if amount != int(amount):
        return f"{int(amount * 1000)}m"
    whole = int(amount)
    units = _BINARY if in_binary else _DECIMAL
    unit = max((unit for unit, size in units.items() if whole and whole % size == 0), key=units.__getitem__, default="")
    return f"{whole // units[unit]}{unit}" if unit else str(whole)


@lru_cache(maxsize=_MEMO_SIZE)
def canonical(text: str) -> str:
    """Return the quantity as an API server writes it: `5Gi` for `5120Mi`; with an exponent, or malformed, unchanged."""
    if "e" in text or "E" in text:
        return text
    try:
        return written(value_of(text), in_binary=is_binary(text))
    except InvalidOperation:
        return text


def sum_quantities(amounts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the sums of quantities by name, each in the family of the first one added."""
    sums: dict[str, Decimal] = {}
    binary: dict[str, bool] = {}
    for amount in amounts:
        for name, quantity in amount.items():
            sums[name] = sums.get(name, Decimal(0)) + value_of(quantity)
            binary.setdefault(name, is_binary(quantity))
    return {name: written(total, in_binary=binary[name]) for name, total in sums.items()}
