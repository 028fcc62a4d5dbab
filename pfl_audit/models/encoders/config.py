"""Settings of a form encoder: transformers' own ``config.json`` keys, and a section of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, cast, get_args

from pfl_audit.models.encoders.kinds import Backbone, FormTask, LabelledTokens, Modality
from pfl_audit.models.encoders.roberta import MOST_PATCHES, TASKS, first_position, own_settings, page_side, patch_side
from pfl_audit.models.encoders.tags import bio_tags, labels_of_tags, spade_tags
from pfl_audit.models.settings import LARGEST_SIZE, reading_config, require_numbers, switch, whole

KIND = "a form encoder"
REMEDY = (
    "Give a LayoutLM, BROS or BERT for mlm, ee-bio, ee-spade or el, a RoBERTa for mlm or ee-bio, or a LiLT or "
    "LayoutLMv3 for ee-bio"
)
"""Of the error of settings that make no network."""
SECTION = "pfl_audit"
"""Key of ``config.json`` for settings that transformers has no key for."""

_CLASS_NAMES: dict[Backbone, str] = {
    "layoutlm": "LayoutLM", "bros": "Bros", "bert": "Bert",
    "roberta": "Roberta", "lilt": "Lilt", "layoutlmv3": "LayoutLMv3",
}  # fmt: skip
_HEADS: dict[FormTask, str] = {
    "mlm": "ForMaskedLM",
    "ee-bio": "ForTokenClassification",
    "ee-spade": "SpadeEEForTokenClassification",
    "el": "SpadeELForTokenClassification",
}
POINTING: Final = ("ee-spade", "el")
"""Tasks whose tokens point to others."""
_PRETRAINED: Final = "ForPreTraining"
"""A head for masked tokens and for the next sentence; the second is not read."""
_HEAD_TENSORS: dict[str, FormTask] = {
    "cls.predictions.transform.dense.weight": "mlm",
    "lm_head.dense.weight": "mlm",
    "classifier.weight": "ee-bio",
    "classifier.out_proj.weight": "ee-bio",
    "initial_token_classifier.1.weight": "ee-spade",
    "entity_linker.query.weight": "el",
}
_TEXT_KEYS = (
    "hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob", "layer_norm_eps", "type_vocab_size",
    "pad_token_id", "initializer_range", "max_2d_position_embeddings", "bbox_scale", "dim_bbox",
    "classifier_dropout", "classifier_dropout_prob", "tie_word_embeddings",
)  # fmt: skip
_NUMBERS = frozenset({
    "hidden_dropout_prob", "attention_probs_dropout_prob", "layer_norm_eps", "initializer_range", "bbox_scale",
    "classifier_dropout", "classifier_dropout_prob",
})  # fmt: skip
_MOST_LAYERS = 200
_MOST_LABELS = 1000
LAYOUT_POSITIONS = 1000
"""Largest index of a LayoutLM's tables of coordinates: boxes come in thousandths of the page."""


@dataclass(frozen=True)
class VisualConfig:
    """The vision backbone of a bimodal encoder: a transformers ResNet of basic layers.

    Attributes:
        stem: Channels of the first convolution.
        channels: Channels of each stage; the first keeps a quarter of the page's side, each further one halves it.
        depths: Layers of each stage.
        side: Pixels that a page is scaled to, both ways.
        bins: Places that are looked at in a token's box, both ways.
    """

    stem: int = 16
    channels: tuple[int, ...] = (16, 32, 64)
    depths: tuple[int, ...] = (1, 1, 1)
    side: int = 224
    bins: int = 2


@dataclass(frozen=True)
class EncoderConfig:
    """A form encoder of any size.

    Attributes:
        backbone: Which of transformers' networks reads the tokens.
        modality: ``bimodal`` if it takes the page's image as well.
        labels: Field labels that it distinguishes; empty for ``mlm``, and without use for ``el``.
        max_tokens: Longest window, special tokens included; at most ``positions``.
        heads: Attention heads of a layer.
        intermediate: Width inside a layer.
        vocabulary: Rows of the embedding.
        positions: Rows of the position table.
        visual: Vision backbone of a bimodal encoder, else None.
        tags: Classes of the head by number, such as ``B-date``; made of the labels where not given.
        text: Further keys of transformers' configuration, such as ``hidden_act``.
        labelled_tokens: Tokens that ``ee-spade`` and ``el`` are scored at.
        label_map: Field label of the forms to a label, or to ``O``, where the names differ. It belongs to an audit,
            and is not saved.

    Raises:
        ValueError: They make no network; the message names the setting.
    """

    backbone: Backbone
    task: FormTask
    modality: Modality = "unimodal"
    labels: tuple[str, ...] = ()
    max_tokens: int = 512
    hidden: int = 768
    layers: int = 12
    heads: int = 12
    intermediate: int = 3072
    vocabulary: int = 30522
    positions: int = 512
    visual: VisualConfig | None = None
    tags: tuple[str, ...] = ()
    text: Mapping[str, Any] = field(default_factory=dict)
    labelled_tokens: LabelledTokens = "word-starts"
    label_map: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Fill in derived settings, and refuse those that make no network."""
        for name, value, known in (
            ("backbone", self.backbone, get_args(Backbone)),
            ("task", self.task, get_args(FormTask)),
            ("modality", self.modality, get_args(Modality)),
            ("labelled_tokens", self.labelled_tokens, get_args(LabelledTokens)),
        ):
            if value not in known:
                raise ValueError(f"{name} is none of {', '.join(known)}")
        if self.modality == "bimodal" and self.visual is None:
            object.__setattr__(self, "visual", VisualConfig())
        if self.modality == "unimodal" and self.visual is not None:
            raise ValueError("visual is set, but modality is unimodal")
        if not self.tags and self.task in ("ee-bio", "ee-spade"):
            made = bio_tags(self.labels) if self.task == "ee-bio" else spade_tags(self.labels)
            object.__setattr__(self, "tags", made)
        _refuse_sizes(self)
        _refuse_labels(self)

    @property
    def longest(self) -> int:
        """Tokens that have a position."""
        return self.positions - first_position(self.backbone, self.text)

    @property
    def page_side(self) -> int | None:
        """Pixels that a page is scaled to, both ways; None if the encoder sees none."""
        return self.visual.side if self.visual is not None else page_side(self.backbone, self.text)

    @property
    def page_tokens(self) -> int:
        """Patches of a page, and the token before them, that LayoutLMv3 reads beside text; 0 without one."""
        side = page_side(self.backbone, self.text)
        return 0 if side is None else (side // patch_side(self.text)) ** 2 + 1

    @property
    def architecture(self) -> str:
        """Name of the network in the style of transformers."""
        return _CLASS_NAMES[self.backbone] + _HEADS[self.task]

    def to_dict(self) -> dict[str, Any]:
        """As ``config.json`` has it."""
        values: dict[str, Any] = {
            "architectures": [self.architecture],
            "model_type": self.backbone,
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "intermediate_size": self.intermediate,
            "vocab_size": self.vocabulary,
            "max_position_embeddings": self.positions,
            **self.text,
        }
        if self.tags:
            values["id2label"] = {str(number): tag for number, tag in enumerate(self.tags)}
            values["label2id"] = {tag: number for number, tag in enumerate(self.tags)}
        values[SECTION] = {
            "task": self.task,
            "modality": self.modality,
            "labels": list(self.labels),
            "max_tokens": self.max_tokens,
            "visual": asdict(self.visual) if self.visual is not None else None,
        }
        if self.task in POINTING:
            values[SECTION]["labelled_tokens"] = self.labelled_tokens
        return values


def config_from_dict(values: Mapping[str, Any], tensors: frozenset[str], folder: Path) -> EncoderConfig:
    """Read an encoder's settings.

    Args:
        values: ``config.json``. Without our section, the architecture's name says what the model does, and
            where that is missing, its tensors do.

    Raises:
        AuditError: No encoder that this family knows, or settings that make no network.
    """
    section = values.get(SECTION, {})
    with reading_config(folder, KIND, REMEDY):
        if not isinstance(section, Mapping):
            raise ValueError(f"{SECTION} is not an object")
        backbone = _backbone(values)
        task = task_of(values, tensors)
        tags = _tags(values) if task in ("ee-bio", "ee-spade") else ()
        labels = section["labels"] if "labels" in section else labels_of_tags(tags, task) if tags else ()
        if not isinstance(labels, list | tuple):
            raise ValueError(f"{SECTION}.labels is not a list")
        positions = values.get("max_position_embeddings", 512)
        text = {key: values[key] for key in _TEXT_KEYS if values.get(key) is not None}
        text |= own_settings(backbone, values)
        whole("max_position_embeddings", positions)
        whole("pad_token_id", text.get("pad_token_id", 0), least=0)
        return EncoderConfig(
            backbone=backbone,
            task=task,
            modality=section.get("modality", "unimodal"),
            labels=tuple(labels),
            max_tokens=section.get("max_tokens", positions - first_position(backbone, text)),
            hidden=values.get("hidden_size", 768),
            layers=values.get("num_hidden_layers", 12),
            heads=values.get("num_attention_heads", 12),
            intermediate=values.get("intermediate_size", 3072),
            vocabulary=values.get("vocab_size", 30522),
            positions=positions,
            visual=_visual(section.get("visual")),
            tags=tags,
            text=text,
            labelled_tokens=_labelled_tokens(values, task),
        )


def _labelled_tokens(values: Mapping[str, Any], task: FormTask) -> LabelledTokens:
    """Checkpoints with our section and without the key are from before there was one."""
    if task not in POINTING or SECTION not in values:
        return "word-starts"
    return cast("LabelledTokens", values[SECTION].get("labelled_tokens", "fields"))


def _backbone(values: Mapping[str, Any]) -> Backbone:
    kind = values.get("model_type")
    if kind not in _CLASS_NAMES:
        raise ValueError(f"model_type is none of {', '.join(_CLASS_NAMES)}")
    return cast("Backbone", kind)


def task_of(values: Mapping[str, Any], tensors: frozenset[str]) -> FormTask:
    """The task of an encoder, from our section of ``config.json``, the architecture's name or the names of tensors.

    Raises:
        ValueError: None of them names a known task.
    """
    section = values.get(SECTION, {})
    named = section.get("task") if isinstance(section, Mapping) else None
    if named:
        if named not in get_args(FormTask):
            raise ValueError(f"task is none of {', '.join(get_args(FormTask))}")
        return cast("FormTask", named)
    backbone = _backbone(values)
    names = values.get("architectures") or []
    heads: list[tuple[FormTask, str]] = [*_HEADS.items(), ("mlm", _PRETRAINED)]
    for task, head in heads:
        if isinstance(names, list) and _CLASS_NAMES[backbone] + head in names:
            return task
    if names:
        raise ValueError(f"the architecture {names!s:.80} has none of the heads {', '.join(_HEADS)}")
    for tensor, named_by in _HEAD_TENSORS.items():
        if tensor in tensors:
            return named_by
    raise ValueError(f"it names no architecture, and the weights have none of the heads {', '.join(_HEADS)}")


def _tags(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The classes in the order of their numbers."""
    table = values.get("id2label")
    if not isinstance(table, Mapping) or not table:
        raise ValueError("id2label is missing, so the names of its classes are unknown")
    if sorted(map(str, table)) != sorted(str(number) for number in range(len(table))):
        raise ValueError("id2label does not count from 0")
    return tuple(table[key] for key in sorted(table, key=int))


def _visual(values: Any) -> VisualConfig | None:
    if values is None:
        return None
    if not isinstance(values, Mapping):
        raise TypeError(f"{SECTION}.visual is not an object")
    if unknown := sorted(set(values) - set(VisualConfig.__dataclass_fields__)):
        raise ValueError(f"{SECTION}.visual has an unknown key {unknown[0]!r:.40}")
    given: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    return VisualConfig(**given)


def _refuse_sizes(config: EncoderConfig) -> None:
    for name in ("hidden", "heads", "intermediate", "vocabulary", "positions"):
        whole(name, getattr(config, name))
    whole("layers", config.layers, most=_MOST_LAYERS)
    whole("max_tokens", config.max_tokens, least=3, most=max(3, config.longest))
    switch("tie_word_embeddings", config.text.get("tie_word_embeddings", True))
    if config.backbone in TASKS:
        _refuse_roberta_sizes(config)
    require_numbers(config.text, _NUMBERS)
    if config.hidden % config.heads:
        raise ValueError(f"a hidden size of {config.hidden} is not a multiple of {config.heads} heads")
    if config.backbone == "bros" and config.hidden % 64:
        raise ValueError(f"BROS needs a hidden size that is a multiple of 64, not {config.hidden}")
    if config.text.get("dim_bbox", 8) != 8:
        raise ValueError("dim_bbox is not 8")
    table = config.text.get("max_2d_position_embeddings", LAYOUT_POSITIONS + 1)
    whole("max_2d_position_embeddings", table, least=LAYOUT_POSITIONS + 1)
    whole("pad_token_id", config.text.get("pad_token_id", 0), least=0, most=config.vocabulary - 1)
    if (visual := config.visual) is not None:
        whole("visual.stem", visual.stem)
        whole("visual.side", visual.side, least=32, most=2048)
        whole("visual.bins", visual.bins, most=16)
        stages: tuple[tuple[str, Any, int], ...] = (
            ("channels", visual.channels, LARGEST_SIZE),
            ("depths", visual.depths, _MOST_LAYERS),
        )
        for name, sizes, most in stages:
            if not isinstance(sizes, tuple) or not 1 <= len(sizes) <= 5:
                raise ValueError(f"visual.{name} is not a list of 1 to 5 numbers")
            for size in sizes:
                whole(f"visual.{name}", size, most=most)
        if len(visual.channels) != len(visual.depths):
            raise ValueError("visual.channels and visual.depths are not of the same length")


def _refuse_roberta_sizes(config: EncoderConfig) -> None:
    """Of a backbone with RoBERTa's vocabulary, also those that would fail on the first form."""
    if config.task not in TASKS[config.backbone]:
        raise ValueError(f"{config.backbone} has no head for {config.task}")
    if config.modality != "unimodal":
        raise ValueError(f"{config.backbone} is unimodal or sees the page itself, and modality is {config.modality}")
    own_settings(config.backbone, config.text)
    text = config.text
    if config.backbone == "lilt":
        narrow = config.hidden // text.get("channel_shrink_ratio", 4)
        if config.hidden % 6 or not narrow or narrow % config.heads:
            raise ValueError(f"hidden_size {config.hidden} does not fit the boxes of a LiLT of {config.heads} heads")
    if config.backbone == "layoutlmv3":
        if 4 * text.get("coordinate_size", 128) + 2 * text.get("shape_size", 128) != config.hidden:
            raise ValueError("hidden_size is not 4 times coordinate_size and 2 times shape_size")
        # A distance within the exact buckets leaves the logarithm of a position without a value.
        whole("max_rel_pos", text.get("max_rel_pos", 128), text.get("rel_pos_bins", 32) // 4 + 1)
        whole("max_rel_2d_pos", text.get("max_rel_2d_pos", 256), text.get("rel_2d_pos_bins", 64) // 4 + 1)
        if config.page_side is not None:
            patch = whole("patch_size", patch_side(text), 1, config.page_side)
            whole("the number of patches", (config.page_side // patch) ** 2, 1, MOST_PATCHES)


def _refuse_labels(config: EncoderConfig) -> None:
    given: tuple[tuple[str, tuple[Any, ...]], ...] = (("labels", config.labels), ("classes", config.tags))
    for what, names in given:
        if len(names) > _MOST_LABELS or not all(isinstance(name, str) and 0 < len(name) <= 200 for name in names):
            raise ValueError(f"the {what} are not at most {_MOST_LABELS} names")
        if len(set(names)) != len(names):
            raise ValueError(f"the {what} have one name twice")
    if config.task in ("ee-bio", "ee-spade"):
        if not config.labels:
            raise ValueError(f"{config.task} needs the labels of the fields")
        if sorted(labels_of_tags(config.tags, config.task)) != sorted(config.labels):
            raise ValueError("id2label and the labels do not belong together")
