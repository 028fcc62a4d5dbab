"""Operations by formula against those that torch counts in transformers' own modules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import DynamicCache, EncoderDecoderCache

from pfl_audit.documents.corpus import Corpus
from pfl_audit.models.vt5.inputs import collate
from pfl_audit.models.vt5.model import Vt5Model
from tests.bench.products import page_operations, question_operations


@torch.inference_mode()
def counted(model: Vt5Model, red: Corpus, answers: tuple[int, int]) -> tuple[int, int]:
    """Operations of a page, and of a question whose answers are computed token by token."""
    network, query = model.network, red.queries[0]
    network.visual_embedding.image_model.set_attn_implementation("eager")
    backbone = network.language_backbone
    with FlopCounterMode(display=False) as page:
        features = network.visual_embedding.encode(model.inputs.pixels(query.document)[None])
        network.visual_embedding(features)
    with FlopCounterMode(display=False) as question:
        embeddings, mask = network.embed(collate([model.inputs.text(query)]), features)
        encoded = backbone.encoder(inputs_embeds=embeddings, attention_mask=mask)
        kept = None
        for tokens in answers:
            if kept is not None:
                kept = EncoderDecoderCache(DynamicCache(), kept.cross_attention_cache)
            for _ in range(tokens):
                kept = backbone(
                    encoder_outputs=encoded, decoder_input_ids=torch.zeros(1, 1).long(), past_key_values=kept
                ).past_key_values
    with FlopCounterMode(display=False) as projected:
        network.visual_embedding(features)
    return page.get_total_flops(), question.get_total_flops() - projected.get_total_flops()


def test_the_fewest_operations_are_those_of_one_question(make_checkpoint: Callable[[int], Path], red: Corpus) -> None:
    model, answers = Vt5Model(make_checkpoint(0)), (5, 3)
    text = len(model.inputs.text(red.queries[0]).ids)
    page, question = counted(model, red, answers)
    assert page_operations(model.network.config) == page
    assert question_operations(model.network.config, text, answers) == question
