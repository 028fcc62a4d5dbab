"""Heads of a backbone, with the tensor names of transformers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pfl_audit.models.encoders.config import EncoderConfig
from pfl_audit.models.encoders.kinds import Backbone

INITIAL_STD = 0.02
"""Standard deviation of new weights, as in BERT."""


class RelationExtractor(nn.Module):
    """Scores from every token to every token and to nowhere (BROS, section 4.2; Hwang et al., SPADE).

    Args:
        dropout: Before both projections.
    """

    def __init__(self, hidden: int, dropout: float) -> None:
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.dummy_node = nn.Parameter(torch.zeros(1, hidden))

    def forward(self, hidden: Tensor) -> Tensor:
        """Float (b, n, hidden) to scores (b, n, n + 1); the last column is nowhere."""
        nowhere = self.dummy_node.expand(len(hidden), 1, -1)
        keys = self.key(self.drop(torch.cat([hidden, nowhere.to(hidden.dtype)], dim=1)))
        return self.query(self.drop(hidden)) @ keys.transpose(1, 2)


def add_head(network: nn.Module, config: EncoderConfig, words: nn.Embedding, text: Any) -> None:
    """Give a network the head of its task, under transformers' names, with new weights.

    Args:
        network: Gets the modules.
        words: Embedding of the backbone, whose weights the masked-language head shares.
        text: Configuration of the backbone.
    """
    hidden, dropout = config.hidden, float(config.text.get("hidden_dropout_prob", 0.1))
    classifier_dropout = config.text.get("classifier_dropout", dropout)
    relation_dropout = float(config.text.get("classifier_dropout_prob", 0.1))
    modules: dict[str, nn.Module] = {}
    if config.task == "mlm":
        from transformers.models.bert.modeling_bert import BertOnlyMLMHead
        from transformers.models.roberta.modeling_roberta import RobertaLMHead

        if config.backbone == "roberta":
            modules["lm_head"] = RobertaLMHead(text)
        else:
            modules["cls"] = BertOnlyMLMHead(text)
    elif config.task == "ee-bio":
        modules["dropout"] = nn.Dropout(classifier_dropout)
        modules["classifier"] = _classifier(config, text)
    elif config.task == "ee-spade":
        modules["initial_token_classifier"] = nn.Sequential(
            nn.Dropout(classifier_dropout),
            nn.Linear(hidden, hidden),
            nn.Dropout(classifier_dropout),
            nn.Linear(hidden, len(config.tags)),
        )
        modules["subsequent_token_classifier"] = RelationExtractor(hidden, relation_dropout)
    else:
        modules["entity_linker"] = RelationExtractor(hidden, relation_dropout)
    for name, module in modules.items():
        module.apply(_initialise)
        network.add_module(name, module)
    if config.task == "mlm":
        tie(network.get_submodule(mlm_head(config.backbone)), words)


def _classifier(config: EncoderConfig, text: Any) -> nn.Module:
    """The head of token classification: linear, or of a LayoutLMv3 of ten tags and more two layers."""
    from transformers.models.layoutlmv3.modeling_layoutlmv3 import LayoutLMv3ClassificationHead

    if config.backbone != "layoutlmv3" or len(config.tags) < 10:
        return nn.Linear(config.hidden, len(config.tags))
    text.num_labels = len(config.tags)
    return LayoutLMv3ClassificationHead(text)


def mlm_head(backbone: Backbone) -> str:
    """Name of the masked-language head's module that has the decoder."""
    return "lm_head" if backbone == "roberta" else "cls.predictions"


def tie(predictions: nn.Module, words: nn.Embedding) -> None:
    """Let a masked-language head share the embedding's weights, and its decoder the head's bias."""
    predictions.decoder.weight = words.weight  # type: ignore[union-attr]
    predictions.decoder.bias = predictions.bias  # type: ignore[union-attr]


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=INITIAL_STD)
        nn.init.zeros_(module.bias)
    elif isinstance(module, RelationExtractor):
        nn.init.normal_(module.dummy_node, std=INITIAL_STD)
