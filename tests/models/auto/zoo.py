"""Small random checkpoints of each family, saved by transformers itself."""

from __future__ import annotations

import json
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
PATCHES = {**VISION, "image_size": 32, "patch_size": 8, "projection_dim": 16}
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
    if hasattr(config, "text_config") and network.config.is_encoder_decoder:
        network.generation_config.decoder_start_token_id = config.text_config.decoder_start_token_id
        network.generation_config.forced_bos_token_id = 1 if config.model_type == "florence2" else None
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
        encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=2048, decoder_start_token_id=2,
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


def save_vision(folder: Path, config: Any, tok: Any, pictures: Any, **settings: Any) -> Path:
    """A vision-language model with the files that a processor's save_pretrained writes."""
    save(folder, config, "AutoModelForImageTextToText", tok, pictures)
    (folder / "processor_config.json").write_text(json.dumps(settings))
    return folder


def qwen(folder: Path, texts: list[str], config_class: Any, sees: dict[str, Any]) -> Path:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    special = ["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    tok = tokenizer(texts, special)
    tok.chat_template = CHAT.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>")
    marks = dict(zip(("vision_start", "vision_end", "image", "video"), special[2:], strict=True))
    config = config_class(
        text_config={
            **TEXT,
            **ids(tok),
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]},
        },
        vision_config={"depth": 1, "num_heads": 2, "patch_size": 14, "spatial_merge_size": 2, **sees},
        **{f"{name}_token_id": tok.convert_tokens_to_ids(token) for name, token in marks.items()},
    )
    pictures = Qwen2VLImageProcessorPil(size={"shortest_edge": 28 * 28, "longest_edge": 28 * 28 * 12})
    return save_vision(folder, config, tok, pictures, processor_class="x")


def qwen2_vl(folder: Path, texts: list[str]) -> Path:
    return qwen(folder, texts, hf.Qwen2VLConfig, {"embed_dim": 16, "hidden_size": 16, "mlp_ratio": 2})


def qwen2_5_vl(folder: Path, texts: list[str]) -> Path:
    sees = {"hidden_size": 16, "intermediate_size": 24, "out_hidden_size": 16, "fullatt_block_indexes": [0]}
    return qwen(folder, texts, hf.Qwen2_5_VLConfig, sees)


def idefics(folder: Path, texts: list[str], config_class: Any, pictures: Any) -> Path:
    special = [
        "<|im_start|>",
        "<|im_end|>",
        "<image>",
        "<fake_token_around_image>",
        "<end_of_utterance>",
        "<global-img>",
    ]
    tok = tokenizer(texts, [*special, *(f"<row_{row}_col_{col}>" for row in range(1, 3) for col in range(1, 3))])
    tok.chat_template = CHAT.replace("IMAGE", "<image>")
    config = config_class(
        text_config={"model_type": "llama", **TEXT, **ids(tok)},
        vision_config={**VISION, "image_size": 32, "patch_size": 8},
        image_token_id=tok.convert_tokens_to_ids("<image>"), scale_factor=2, pad_token_id=0,
    )  # fmt: skip
    made = pictures(size={"longest_edge": 64}, max_image_size={"longest_edge": 32})
    return save_vision(folder, config, tok, made, image_seq_len=4)


def idefics3(folder: Path, texts: list[str]) -> Path:
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

    return idefics(folder, texts, hf.Idefics3Config, Idefics3ImageProcessorPil)


def smolvlm(folder: Path, texts: list[str]) -> Path:
    from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

    return idefics(folder, texts, hf.SmolVLMConfig, SmolVLMImageProcessorPil)


def llava(folder: Path, texts: list[str]) -> Path:
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    tok = tokenizer(texts, ["<|im_start|>", "<|im_end|>", "<image>"])
    tok.chat_template = CHAT.replace("IMAGE", "<image>\n")
    config = hf.LlavaConfig(
        vision_config={**PATCHES, "model_type": "clip_vision_model", "num_hidden_layers": 2},
        text_config={"model_type": "llama", **TEXT, **ids(tok)}, image_token_index=tok.convert_tokens_to_ids("<image>"),
    )  # fmt: skip
    made = CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    settings = {"patch_size": 8, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    return save_vision(folder, config, tok, made, **settings)


def paligemma(folder: Path, texts: list[str]) -> Path:
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

    tok = tokenizer(texts, ["<image>"])
    tok.add_tokens([*(f"<loc{index:04}>" for index in range(1024)), *(f"<seg{index:03}>" for index in range(128))])
    config = hf.PaliGemmaConfig(
        vision_config={**PATCHES, "model_type": "siglip_vision_model", "vision_use_head": False},
        text_config={"model_type": "gemma", **TEXT, "head_dim": 8, **ids(tok)},
        image_token_index=tok.convert_tokens_to_ids("<image>"), projection_dim=16, hidden_size=16, pad_token_id=0,
    )  # fmt: skip
    made = SiglipImageProcessorPil(size={"height": 32, "width": 32})
    made.image_seq_length = 16
    return save_vision(folder, config, tok, made)


def internvl(folder: Path, texts: list[str]) -> Path:
    from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil

    names = {
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    }
    tok = tokenizer(texts, ["<|im_start|>", "<|im_end|>"], extra_special_tokens=names)
    tok.chat_template = CHAT.replace("IMAGE", "<IMG_CONTEXT>\n")
    config = hf.InternVLConfig(
        vision_config={**VISION, "image_size": [32, 32], "patch_size": [8, 8]},
        text_config={"model_type": "qwen2", **TEXT, **ids(tok)},
        image_token_id=tok.convert_tokens_to_ids("<IMG_CONTEXT>"), image_seq_length=4,
    )  # fmt: skip
    made = GotOcr2ImageProcessorPil(size={"height": 32, "width": 32}, max_patches=2)
    return save_vision(folder, config, tok, made, image_seq_length=4)


def florence2(folder: Path, texts: list[str]) -> Path:
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    tok = tokenizer(texts, extra_special_tokens={"image_token": "<image>"})
    sees = {"depths": [1, 1], "patch_size": [7, 3], "patch_stride": [4, 2], "patch_padding": [3, 1],
            "patch_prenorm": [False, True], "embed_dim": [8, 16], "num_heads": [2, 2], "num_groups": [2, 2],
            "window_size": 4, "projection_dim": 16}  # fmt: skip
    text = {"model_type": "bart", "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 24,
            "decoder_ffn_dim": 24, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
            "max_position_embeddings": 256, "decoder_start_token_id": 2, "forced_bos_token_id": 1,
            **ids(tok)}  # fmt: skip
    config = hf.Florence2Config(
        text_config=text, vision_config=sees, image_token_id=tok.convert_tokens_to_ids("<image>")
    )
    made = CLIPImageProcessorPil(size={"height": 32, "width": 32}, do_center_crop=False, image_seq_length=17)
    made.image_seq_length = 17
    return save_vision(folder, config, tok, made)


def pix2struct(folder: Path, texts: list[str]) -> Path:
    from transformers.models.pix2struct.image_processing_pil_pix2struct import Pix2StructImageProcessorPil

    tok = tokenizer(texts)
    config = hf.Pix2StructConfig(
        text_config={
            "hidden_size": 16,
            "d_kv": 8,
            "d_ff": 24,
            "num_layers": 1,
            "num_heads": 2,
            "decoder_start_token_id": 0,
            **ids(tok),
        },
        vision_config={
            "hidden_size": 16,
            "patch_embed_hidden_size": 768,
            "d_ff": 24,
            "d_kv": 8,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "seq_len": 64,
        },
        is_vqa=True,
    )
    return save_vision(folder, config, tok, Pix2StructImageProcessorPil(max_patches=24, is_vqa=True))


def udop(folder: Path, texts: list[str]) -> Path:
    from transformers.models.layoutlmv3.image_processing_pil_layoutlmv3 import LayoutLMv3ImageProcessorPil

    letters = sorted({letter for text in texts for letter in text if not letter.isspace()})
    vocab = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0), *((letter, -3.0) for letter in letters)]
    tok = hf.UdopTokenizer(vocab=vocab, model_max_length=128)
    config = hf.UdopConfig(
        vocab_size=len(tok), d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, image_size=32, patch_size=8,
        max_2d_position_embeddings=1024, decoder_start_token_id=0,
    )  # fmt: skip
    made = LayoutLMv3ImageProcessorPil(apply_ocr=False, size={"height": 32, "width": 32})
    save(folder, config, "AutoModelForImageTextToText", tok, made)
    settings = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps({**settings, "eos_token_id": 1}))
    return folder


TEXT_FAMILIES: dict[str, Callable[[Path, list[str]], Path]] = {"t5": t5, "bart": bart, "gpt2": gpt2, "llama": llama}
IMAGE_FAMILIES: dict[str, Callable[[Path, list[str]], Path]] = {
    one.__name__: one
    for one in (qwen2_vl, qwen2_5_vl, idefics3, smolvlm, llava, paligemma, internvl, florence2, pix2struct, udop)
}
FAMILIES = TEXT_FAMILIES | IMAGE_FAMILIES
