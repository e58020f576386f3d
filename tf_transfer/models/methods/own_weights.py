"""Methods that add nothing: some or all of a block's own weights train.

`full`: all of them.

`bias`, BitFit: Elad Ben Zaken, Shauli Ravfogel, Yoav Goldberg, "BitFit: Simple
Parameter-efficient Fine-tuning for Transformer-based Masked Language-models"
(arXiv 2106.10199): every bias of a block, LayerNorm's among them, and the head.
The pooler's bias trains too. The paper tries 1e-4, 4e-4, 7e-4 and 1e-3; the
second without `--lr` is our choice. Also ours: the embeddings' LayerNorm is
frozen, so that what lies below the trained blocks can be cached; the authors'
code trains its bias.

`norm`, LayerNorm tuning: Wang Qi, Yu-Ping Ruan, Yuan Zuo, Taihao Li,
"Parameter-Efficient Tuning on Layer Normalization for Pre-trained Language
Models" (arXiv 2211.08682). The rate without `--lr`, and that the embeddings'
LayerNorm is frozen, are our choice.

`contrastive`: all of them, by a loss that makes texts of one label similar; see
`training.objectives.contrastive_loss`.
"""

import dataclasses
from typing import ClassVar

from tf_transfer.models.methods.base_method import Method


@dataclasses.dataclass(frozen=True)
class Full(Method):
    """Every weight trains."""

    trains_kernels: ClassVar[bool] = True

    def trains(self, weight: str) -> bool:
        """All do."""
        return True


FULL = Full()


@dataclasses.dataclass(frozen=True)
class Contrastive(Full):
    """Every weight of the blocks trains, by a contrastive loss."""


@dataclasses.dataclass(frozen=True)
class Bias(Method):
    """Biases of dense layers and of LayerNorm train."""

    lr: ClassVar[float] = 4e-4

    def trains(self, weight: str) -> bool:
        """Biases do; LayerNorm's is called beta."""
        return weight in ("bias", "beta")


@dataclasses.dataclass(frozen=True)
class Norm(Method):
    """Gains and biases of LayerNorm train."""

    lr: ClassVar[float] = 1e-3

    def trains(self, weight: str) -> bool:
        """Gamma and beta do."""
        return weight in ("gamma", "beta")
