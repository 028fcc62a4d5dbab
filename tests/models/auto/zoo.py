"""Small random checkpoints of each family, saved by transformers itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for c in m['content'] %}{% if c['type'] == 'image' %}IMAGE{% else %}{{ c['text'] }}{% endif %}{% endfor %}"
    "{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VISION = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
TEXT = {**VISION, "num_key_value_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 2048}


def tokenizer(texts: Iterable[str], special: Iterable[str] = (), **names: Any) -> Any:
    """A small byte-level tokenizer; </s> ends, <pad> pads."""
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    every = ["<pad>", "<s>", "</s>", "<unk>", *special]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=400, special_tokens=every, initial_alphabet=alphabet, show_progress=False)
    )
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        additional_special_tokens=list(special), model_max_length=2048, **names,
    )  # fmt: skip


def save(folder: Path, config: Any, kind: str, *parts: Any) -> Path:
    """A network of random weights, and what belongs to it."""
    torch.manual_seed(0)
    network = getattr(hf, kind).from_config(config)
    with torch.no_grad():
        for parameter in network.parameters():  # so that answers differ between pages
            if parameter.dim() > 1:
                parameter.normal_(std=0.25)
    network.generation_config.eos_token_id, network.generation_config.pad_token_id = 2, 0
    network.save_pretrained(folder)
    for part in parts:
        part.save_pretrained(folder)
    return folder


def ids(tok: Any) -> dict[str, Any]:
    return {"vocab_size": len(tok), "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def t5(folder: Path, texts: list[str]) -> Path:
    tok = tokenizer(texts)
    config = hf.T5Config(d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0, **ids(tok))
    return save(folder, config, "AutoModelForSeq2SeqLM", tok)


def bart(folder: Path, texts: list[str]) -> Path:
    tok = tokenizer(texts)
    config = hf.BartConfig(
        d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=256, decoder_start_token_id=2,
        forced_bos_token_id=1, forced_eos_token_id=2, **ids(tok),
    )  # fmt: skip
    return save(folder, config, "AutoModelForSeq2SeqLM", tok)


def gpt2(folder: Path, texts: list[str]) -> Path:
    tok = tokenizer(texts)
    config = hf.GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=512, **ids(tok))
    return save(folder, config, "AutoModelForCausalLM", tok)


def llama(folder: Path, texts: list[str]) -> Path:
    tok = tokenizer(texts, ["<|im_start|>", "<|im_end|>"])
    tok.chat_template = CHAT
    return save(folder, hf.LlamaConfig(**TEXT, **ids(tok)), "AutoModelForCausalLM", tok)


def qwen2_vl(folder: Path, texts: list[str], family: str = "Qwen2VL") -> Path:
    special = ["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    tok = tokenizer(texts, special)
    tok.chat_template = CHAT.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>")
    names = {"image": "<|image_pad|>", "video": "<|video_pad|>"}
    marks = {f"{name}_token_id": tok.convert_tokens_to_ids(token) for name, token in names.items()}
    marks["vision_start_token_id"] = tok.convert_tokens_to_ids("<|vision_start|>")
    marks["vision_end_token_id"] = tok.convert_tokens_to_ids("<|vision_end|>")
    sees: dict[str, Any] = {"depth": 1, "num_heads": 2, "patch_size": 14, "spatial_merge_size": 2}
    if family == "Qwen2VL":
        sees |= {"embed_dim": 16, "hidden_size": 16, "mlp_ratio": 2}
    else:
        sees |= {"hidden_size": 16, "intermediate_size": 24, "out_hidden_size": 16, "fullatt_block_indexes": [0]}
    text = {**TEXT, **ids(tok), "rope_parameters": {"type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}}
    config = getattr(hf, f"{family.replace('2_5', '2_5_') if '2_5' in family else family}Config")(
        text_config=text, vision_config=sees, **marks
    )
    pictures = hf.AutoImageProcessor.for_model if False else None
    del pictures
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    size = {"shortest_edge": 28 * 28, "longest_edge": 28 * 28 * 12}
    return save(folder, config, "AutoModelForImageTextToText", tok, Qwen2VLImageProcessorPil(size=size))


FAMILIES: dict[str, Callable[[Path, list[str]], Path]] = {"t5": t5, "bart": bart, "gpt2": gpt2, "llama": llama}
