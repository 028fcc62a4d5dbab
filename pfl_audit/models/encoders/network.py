"""The network: a backbone of transformers, a vision part and a head."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pfl_audit.models.encoders.batch import FormBatch
from pfl_audit.models.encoders.config import LAYOUT_POSITIONS, EncoderConfig
from pfl_audit.models.encoders.heads import add_head, mlm_head
from pfl_audit.models.encoders.losses import window_means
from pfl_audit.models.encoders.roberta import TASKS
from pfl_audit.models.encoders.visual import Vision
from pfl_audit.models.samples import IGNORED


class Logits(NamedTuple):
    """Logits of b windows of n tokens; None if the task has no such output.

    Attributes:
        classes: Float (b, n, classes).
        pointers: float32 (b, n, n + 1): from each token to each, and in the last column to nowhere.
    """

    classes: Tensor | None
    pointers: Tensor | None


class FormEncoder(nn.Module):
    """A form encoder with new weights, drawn from torch's global random generator.

    Tensors are named as transformers names them; what belongs to the page's image begins with ``visual.``.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        backbone = _backbone(config)
        self.add_module(config.backbone, backbone)
        self.visual = Vision(config.visual, config.hidden) if config.visual is not None else None
        add_head(self, config, self.words, backbone.config)

    @property
    def backbone(self) -> Any:
        """Transformers' network."""
        return getattr(self, self.config.backbone)

    @property
    def words(self) -> nn.Embedding:
        """The embedding of tokens."""
        return self.backbone.embeddings.word_embeddings

    def page(self, pixels: Tensor) -> Tensor:
        """Feature maps of pages, (pages, c, h, w), to be shared by all their windows.

        Args:
            pixels: float32 (pages, 3, side, side).

        Of a LayoutLMv3, which takes pixels, they are the pixels.

        Raises:
            ValueError: The encoder is unimodal.
        """
        if self.visual is None and self.config.page_side is not None:
            return pixels
        if self.visual is None:
            raise ValueError("a unimodal encoder sees no page")
        return self.visual.page(pixels)

    def hidden(self, batch: FormBatch) -> Tensor:
        """The backbone's last layer, (b, n, hidden)."""
        if self.config.backbone in TASKS:
            states: Tensor = self.backbone(input_ids=batch.ids, **self._roberta_inputs(batch)).last_hidden_state
            return states[:, : batch.ids.shape[1]]  # those of the page's patches come behind
        embeddings = self.words(batch.ids)
        if self.visual is not None:
            embeddings = embeddings + self._seen(batch)
        given: dict[str, Any] = {"inputs_embeds": embeddings, "attention_mask": batch.mask.long()}
        if self.config.backbone == "layoutlm":
            given["bbox"] = _thousandths(batch.boxes)
        elif self.config.backbone == "bros":
            alike = bool((batch.boxes == batch.boxes[:1]).all())
            given["bbox"] = batch.boxes[:1] if alike else batch.boxes
        return self.backbone(**given).last_hidden_state

    def forward(self, batch: FormBatch) -> Logits:
        """Logits of every token."""
        hidden = self.hidden(batch)
        classes = self.class_logits(hidden) if self.config.task != "el" else None
        pointers = self._pointer_logits(hidden, batch) if self.config.task in ("ee-spade", "el") else None
        return Logits(classes, pointers)

    def class_logits(self, hidden: Tensor) -> Tensor:
        """Class logits of states (..., hidden): (..., classes). The classes of ``mlm`` are the tokens."""
        if self.config.task == "mlm":
            logits: Tensor = self.get_submodule(mlm_head(self.config.backbone).split(".")[0])(hidden)
        elif self.config.task == "ee-bio":
            logits = self.get_submodule("classifier")(self.get_submodule("dropout")(hidden))
        else:
            logits = self.get_submodule("initial_token_classifier")(hidden)
        return logits

    def loss(self, batch: FormBatch) -> Tensor:
        """The training loss of each window, float32 (b,): never averaged over the windows.

        It is the mean cross-entropy of the window's labelled tokens; of ``ee-spade`` the sum of two, for first
        tokens and for pointers (BROS, section 4.2). A window without labelled tokens has 0. The mean over a
        mini-batch is what training minimises.

        Raises:
            ValueError: The batch has no labels.
        """
        hidden = self.hidden(batch)
        parts: list[Tensor] = []
        if batch.classes is not None:
            parts.append(window_means(self.class_logits(hidden[batch.classes != IGNORED]), batch.classes))
        if batch.pointers is not None:
            logits = self._pointer_logits(hidden, batch)
            parts.append(window_means(logits[batch.pointers != IGNORED], batch.pointers))
        if not parts:
            raise ValueError("the batch has no labels")
        return torch.stack(parts).sum(dim=0)

    def _roberta_inputs(self, batch: FormBatch) -> dict[str, Tensor]:
        given = {"attention_mask": batch.mask.long()}
        if self.config.backbone != "roberta":
            given["bbox"] = _thousandths(batch.boxes)
        if self.config.page_side is not None:
            pages = batch.features if batch.features is not None else batch.pixels
            if pages is None:
                raise ValueError("a LayoutLMv3 needs pixels or features")
            given["pixel_values"] = pages[batch.page]
        return given

    def _seen(self, batch: FormBatch) -> Tensor:
        """Visual term of the embeddings, in float32 whatever the precision of the rest."""
        assert self.visual is not None  # noqa: S101 - the caller looked
        with torch.autocast(batch.ids.device.type, enabled=False):
            if batch.features is None and batch.pixels is None:
                raise ValueError("a bimodal encoder needs pixels or features")
            features = batch.features if batch.features is not None else self.page(batch.pixels)  # type: ignore[arg-type]
            seen: Tensor = self.visual(features.float(), batch.boxes, batch.page)
        return seen

    def _pointer_logits(self, hidden: Tensor, batch: FormBatch) -> Tensor:
        """Pointer scores from token to token, lowest at invalid targets: padding, the token itself, no target."""
        name = "entity_linker" if self.config.task == "el" else "subsequent_token_classifier"
        scores: Tensor = self.get_submodule(name)(hidden).float()
        allowed = batch.mask if batch.targets is None else batch.mask & batch.targets
        barred = torch.cat([~allowed, allowed.new_zeros(len(allowed), 1)], dim=1)[:, None, :]
        itself = torch.eye(*scores.shape[1:], dtype=torch.bool, device=scores.device)
        return scores.masked_fill(barred | itself, torch.finfo(scores.dtype).min)


def _thousandths(boxes: Tensor) -> Tensor:
    """Boxes to the nearest thousandth, as our checkpoints were trained; `models.thousandths` rounds down.

    Shares that were divided by 1,000 come out as they went in by both.
    """
    return (boxes * LAYOUT_POSITIONS).round().long().clamp(0, LAYOUT_POSITIONS)


def _backbone(config: EncoderConfig) -> Any:
    """Transformers' network with new weights, without the pooler, which no task of ours uses."""
    from transformers import BertConfig, BertModel, BrosConfig, LayoutLMConfig, LayoutLMModel

    from pfl_audit.models.encoders.bros import bros

    values = {
        "vocab_size": config.vocabulary,
        "hidden_size": config.hidden,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.intermediate,
        "max_position_embeddings": config.positions,
        **config.text,
    }
    if config.backbone in TASKS:
        return _roberta(config, values)
    if config.backbone == "bros":
        return bros(BrosConfig(**values))
    if config.backbone == "bert":
        return BertModel(BertConfig(**values), add_pooling_layer=False)
    network = LayoutLMModel(LayoutLMConfig(**values))
    network.pooler = nn.Identity()
    return network


def _roberta(config: EncoderConfig, values: dict[str, Any]) -> Any:
    """A network with RoBERTa's vocabulary."""
    from transformers import LayoutLMv3Config, LayoutLMv3Model, LiltConfig, LiltModel, RobertaConfig, RobertaModel

    if config.backbone == "roberta":
        return RobertaModel(RobertaConfig(**values), add_pooling_layer=False)
    if config.backbone == "lilt":
        return LiltModel(LiltConfig(**values), add_pooling_layer=False)
    return LayoutLMv3Model(LayoutLMv3Config(**values))
