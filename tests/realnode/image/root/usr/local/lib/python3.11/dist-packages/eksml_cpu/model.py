"""The model that all trainings have: small enough for a CPU that sixteen ranks share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy
import torch
from torch import Tensor, nn

LENGTH = 48
"""Of a sequence, in tokens."""
_WIDTH = 48


class TinyModel(nn.Module):
    """A decoder of two layers over bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, _WIDTH)
        self.position = nn.Parameter(torch.zeros(LENGTH, _WIDTH))
        layer = nn.TransformerEncoderLayer(_WIDTH, 4, 2 * _WIDTH, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(_WIDTH, 256)
        self.register_buffer("mask", torch.triu(torch.full((LENGTH, LENGTH), -torch.inf), 1), persistent=False)

    def loss(self, rows: Tensor) -> Tensor:
        """Return the loss of predicting each token of the rows but the first."""
        hidden = self.layers(self.embedding(rows[:, :-1]) + self.position, self.mask)
        return nn.functional.cross_entropy(self.head(hidden).flatten(0, 1), rows[:, 1:].flatten())

    forward = loss


def windows(tokens: numpy.ndarray, *, batch: int, count: int, seed: int) -> Iterator[Tensor]:
    """Yield batches of pieces of the tokens, each one token longer than a sequence."""
    chosen = numpy.random.default_rng(seed)
    for _ in range(count):
        starts = chosen.integers(0, max(1, len(tokens) - LENGTH - 1), batch)
        rows = [numpy.resize(tokens[start : start + LENGTH + 1], LENGTH + 1) for start in starts]
        yield torch.from_numpy(numpy.stack(rows).astype(numpy.int64))
