"""Sums of Kubernetes quantities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from actions.sandbox.quantities import is_binary, value_of, written


def total(amounts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Sums of quantities by name."""
    sums: dict[str, Decimal] = {}
    binary: dict[str, bool] = {}
    for one in amounts:
        for name, quantity in one.items():
            sums[name] = sums.get(name, Decimal(0)) + value_of(quantity)
            binary.setdefault(name, is_binary(quantity))
    return {name: written(amount, in_binary=binary[name]) for name, amount in sums.items()}
