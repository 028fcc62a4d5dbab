"""New small Donuts: sizes, tokenizer and checkpoint folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import DonutSwinConfig, MBartConfig

from pfl_audit.errors import UsageError
from pfl_audit.models.checkpoint import write_checkpoint
from pfl_audit.models.donut.config import DonutConfig
from pfl_audit.models.donut.network import build, own_tensors
from pfl_audit.models.donut.pixels import PixelSettings
from pfl_audit.models.donut.tokenizer import BOS, EOS, MARKS, PAD, UNK
from pfl_audit.models.pixels import PREPROCESSOR
from pfl_audit.models.tokenizer_files import train_unigrams

BIASES = "relative_position_bias_table"
PIECES = (BOS, PAD, EOS, UNK, *MARKS)
"""First pieces of every vocabulary made here, in the order of XLM-R; the others are text."""


@dataclass(frozen=True)
class SmallSize:
    """Sizes of a small Donut.

    A patch of 4 x 4 pixels is 48 numbers. An embedding wider than that can hold all of them, and what the LayerNorm
    behind it takes away (mean and contrast) besides; so its gradient speaks of every pixel.

    Attributes:
        height: Height of a page in pixels.
        width: Width of a page in pixels.
        patch: Side of a patch, in pixels.
        embed: Width of the patch embedding; each stage doubles it.
        depths: Layers of each stage; a stage halves rows and columns of the one before it.
        heads: Attention heads of each stage.
        window: Side of the attention's window, in patches.
        mlp: Width of the encoder's hidden layers, in widths of their stage.
        d_model: Width of the decoder.
        decoder_heads: Attention heads of the decoder.
        ffn: Width of the decoder's hidden layers.
        longest: Largest number of tokens of prompt and answer together.
        spread: Standard deviation of new weights.
        sharpness: Standard deviation of new relative position biases. From about 4 on every head looks at a few
            places only, so that what is done to a patch depends on where it is; below 1 attention begins as an
            average, which hides that from the gradient.
    """

    height: int = 256
    width: int = 192
    patch: int = 4
    embed: int = 128
    depths: tuple[int, ...] = (2, 2)
    heads: tuple[int, ...] = (4, 8)
    window: int = 8
    mlp: float = 2.0
    d_model: int = 128
    layers: int = 2
    decoder_heads: int = 4
    ffn: int = 256
    longest: int = 96
    spread: float = 0.02
    sharpness: float = 0.02


def new_donut(size: SmallSize, vocabulary: int, *, seed: int) -> Any:
    """A Donut with random weights, without dropout.

    Args:
        vocabulary: Rows of the embedding; the special tokens are PIECES.

    Returns:
        A VisionEncoderDecoderModel in training mode, ``network.config`` of which has its sizes.

    Raises:
        UsageError: Sizes that make no network.
    """
    try:
        config = _config(size, vocabulary)
        config.require_page((size.height, size.width))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = build(config)
            for name, weights in network.named_parameters():
                if name.endswith(BIASES):
                    torch.nn.init.normal_(weights, std=size.sharpness)
            return network
    except Exception as error:  # torch and transformers raise many kinds
        text = " ".join(str(error).split())[:200]
        raise UsageError(f"such a small Donut cannot be built: {text}", "Choose other sizes") from error


def config_of(network: Any) -> DonutConfig:
    """The settings of a network."""
    return DonutConfig(network.config.encoder, network.config.decoder)


def save_donut(network: Any, tokenizer_files: Path, folder: Path, *, dtype: torch.dtype = torch.float32) -> None:
    """Write a checkpoint that load_donut and transformers open, tied copies once.

    Args:
        network: Network to save; its pages are those of ``network.config``, from -1 to 1.
        tokenizer_files: Folder whose tokenizer files are copied along.
        folder: Folder to write to. The weights are written last and atomically.
        dtype: Floating-point type of the tensors in the file.
    """
    config = config_of(network)
    records = {"config.json": config.to_dict(), PREPROCESSOR: PixelSettings(config.page).to_dict()}
    write_checkpoint(folder, records, own_tensors(network), source=tokenizer_files, dtype=dtype)


def train_tokenizer(texts: Iterable[str], folder: Path, vocabulary: int) -> None:
    """Train SentencePiece on questions and answers and write ``spiece.model``, PIECES first.

    Args:
        texts: Every character of them becomes a piece at least.
        folder: Folder to write to.
        vocabulary: Pieces at most; there are fewer where the texts give no more.

    Raises:
        UsageError: So few pieces cannot hold the characters of the texts.
    """
    try:
        train_unigrams(
            texts,
            folder,
            vocabulary,
            hard_vocab_limit=False,
            bos_id=PIECES.index(BOS),
            pad_id=PIECES.index(PAD),
            eos_id=PIECES.index(EOS),
            unk_id=PIECES.index(UNK),
            control_symbols=list(MARKS),
        )
    except RuntimeError as error:
        raise UsageError(
            f"no tokenizer of {vocabulary} pieces can be learnt from these texts", "Give more texts, or more pieces"
        ) from error


def _config(size: SmallSize, vocabulary: int) -> DonutConfig:
    encoder = DonutSwinConfig(
        image_size=[size.height, size.width],
        patch_size=size.patch,
        embed_dim=size.embed,
        depths=list(size.depths),
        num_heads=list(size.heads),
        window_size=size.window,
        mlp_ratio=size.mlp,
        drop_path_rate=0.0,
        initializer_range=size.spread,
    )
    decoder = MBartConfig(
        vocab_size=vocabulary,
        d_model=size.d_model,
        encoder_layers=size.layers,
        decoder_layers=size.layers,
        decoder_attention_heads=size.decoder_heads,
        decoder_ffn_dim=size.ffn,
        max_position_embeddings=size.longest,
        scale_embedding=True,
        dropout=0.0,
        init_std=size.spread,
        is_decoder=True,
        add_cross_attention=True,
        pad_token_id=PIECES.index(PAD),
        bos_token_id=PIECES.index(BOS),
        eos_token_id=PIECES.index(EOS),
    )
    return DonutConfig(encoder, decoder)
