"""What the log of a finished job must say for its stage to have succeeded.

`reads` in the YAML picks the class, and with it the reader of the log that the stage watches. Texts may hold `${name}`;
where an amount is a number, a text with `${name}` will do.
"""

from __future__ import annotations

from actions.blueprint.checks import Amount
from actions.blueprint.parts import Part

_LARGE = 128 << 20


class Verdict(Part, frozen=True, kw_only=True, tag_field="reads", tag="verdict"):
    """One kind of judgement."""

    hint: str = ""
    """What to do if it is not so, as an imperative."""


class AdaptersVerdict(Verdict, frozen=True, kw_only=True, tag="efa"):
    """The list of `fi_info`: every rank sees so many EFA adapters."""

    ranks: Amount
    adapters: Amount


class BandwidthVerdict(Verdict, frozen=True, kw_only=True, tag="nccl"):
    """The table of nccl-tests: nothing is wrong, and large messages are as fast as on the same nodes elsewhere."""

    instance_type: str
    nodes: Amount
    ranks_per_node: Amount
    at_least_percent: Amount = 80
    """Of the reference's bus bandwidth, at each size from `from_bytes` on."""
    from_bytes: Amount = _LARGE


AnyVerdict = AdaptersVerdict | BandwidthVerdict
