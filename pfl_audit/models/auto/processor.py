"""Tokenizers and processors, built from local files without code of the folder and without the parts for video."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pfl_audit.models.auto.kinds import Kind

LOCAL: Final[dict[str, Any]] = {"local_files_only": True, "trust_remote_code": False}
TURN: Final = "PFLAUDITTURN"
"""Text that takes the place of the prompt when a chat template is rendered."""
_NO_LIMIT: Final = 1 << 30


def open_config(folder: Path) -> Any:
    """``config.json`` as transformers' object."""
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(folder, **LOCAL)


def open_tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder."""
    from transformers import AutoTokenizer

    opened: Any = AutoTokenizer
    return opened.from_pretrained(folder, **LOCAL)


def longest_input(tokenizer: Any) -> int:
    """Tokens that a tokenizer gives out at most by its ``model_max_length``, which may be anything in a file."""
    said = tokenizer.model_max_length
    return int(min(said, _NO_LIMIT)) if isinstance(said, int | float) and said >= 1 else _NO_LIMIT


def open_processor(folder: Path, kind: Kind, config: Any) -> Any:
    """The processor of a model with images, or the tokenizer of one without.

    A processor is built from its tokenizer and its PIL image processor; the part for videos, which needs torchvision,
    is left out.

    Raises:
        ValueError: Its class is unknown, or needs a part that pages do not have, such as audio.
    """
    from transformers import AutoImageProcessor
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

    tokenizer = open_tokenizer(folder)
    if kind.inputs == "TextInputs":
        return tokenizer
    known: Any = PROCESSOR_MAPPING.get(type(config), None)
    if known is None:
        raise ValueError(f"transformers has no processor for {type(config).__name__}")
    module = sys.modules[known.__module__]
    if getattr(module, "num2words", str) is None:
        module.num2words = str  # type: ignore[attr-defined] # SmolVLM names the time of frames of videos with it

    class Processor(known):  # type: ignore[misc]
        def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> Any:
            return None if argument is None else known.check_argument_for_proper_class(self, argument_name, argument)

    Processor.__name__ = known.__name__
    parts: dict[str, Callable[[], Any]] = {
        "tokenizer": lambda: tokenizer,
        "image_processor": lambda: AutoImageProcessor.from_pretrained(folder, backend="pil", **LOCAL),
        "video_processor": lambda: None,
    }
    if strange := [name for name in known.get_attributes() if name not in parts]:
        raise ValueError(f"its processor needs a {strange[0]}")
    settings, _ = known.get_processor_dict(folder, **LOCAL)
    built: Any = Processor
    return built.from_args_and_dict([parts[name]() for name in known.get_attributes()], settings)


def render_turn(processor: Any, kind: Kind) -> str | None:
    """The chat template around a prompt, with TURN in the place of the prompt; None if there is no template.

    Raises:
        ValueError: The template does not repeat the prompt exactly once.
    """
    tokenizer = getattr(processor, "tokenizer", processor)
    template = getattr(processor, "chat_template", None) or getattr(tokenizer, "chat_template", None)
    if not template or kind.inputs not in ("TextInputs", "ImageInputs"):
        return None
    picture: list[dict[str, str]] = [] if kind.inputs == "TextInputs" else [{"type": "image"}]
    content: Any = [*picture, {"type": "text", "text": TURN}] if picture else TURN
    turn = tokenizer.apply_chat_template(
        [{"role": "user", "content": content}], chat_template=template, add_generation_prompt=True, tokenize=False
    )
    if not isinstance(turn, str) or turn.count(TURN) != 1:
        raise ValueError("its chat template does not contain the question once")
    return turn
