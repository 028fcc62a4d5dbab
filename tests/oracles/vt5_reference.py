"""VT5 as the reference computes it: one query, or one padded batch, at a time, in plain steps."""

from collections.abc import Sequence

import torch
from PIL import Image
from torch import Tensor

from pfl_audit.documents.document import Query
from pfl_audit.models.vt5.modeling import Vt5
from pfl_audit.models.vt5.tokenizer import Tokenizer


def text_inputs(query: Query, tokenizer: Tokenizer, longest: int, scale: float) -> tuple[list[int], list[list[int]]]:
    """Prompt, words one by one, cut to the longest input less one, end-of-sequence."""
    ids = list(tokenizer.encode("question: " + query.question + "  context: "))
    boxes = [[0, 0, 1000, 1000] for _ in ids]
    for word, box in zip(query.document.words, query.document.boxes.tolist(), strict=True):
        for token in tokenizer.encode(word.lower()):
            ids.append(token)
            boxes.append([int(edge * scale) for edge in box])
    return [*ids[: longest - 1], 1], [*boxes[: longest - 1], [0, 0, 0, 0]]


def pixels(query: Query, size: int) -> Tensor:
    """Direct bilinear resize, then (x / 255 - 0.5) / 0.5."""
    assert query.document.image is not None
    page = query.document.image.open().resize((size, size), Image.Resampling.BILINEAR)
    flat = torch.tensor(list(page.tobytes()), dtype=torch.float32).reshape(size, size, 3)
    return (flat.permute(2, 0, 1) / 255.0 - 0.5) / 0.5


def encode(network: Vt5, tokenizer: Tokenizer, queries: Sequence[Query], scale: float) -> tuple[Tensor, Tensor]:
    """Encoder inputs of a batch: text padded to the longest, then the page's tokens."""
    config = network.config
    texts = [text_inputs(query, tokenizer, config.max_input_tokens, scale) for query in queries]
    longest = max(len(ids) for ids, _ in texts)
    rows, masks = [], []
    for query, (ids, boxes) in zip(queries, texts, strict=True):
        pads = longest - len(ids)
        id_row = torch.tensor(ids + [0] * pads)
        box_row = torch.tensor(boxes + [[0, 0, 0, 0]] * pads)
        spatial = network.spatial_embedding
        x, y = spatial.x_position_embeddings, spatial.y_position_embeddings
        total = x(box_row[:, 0]) + y(box_row[:, 1]) + x(box_row[:, 2]) + y(box_row[:, 3])
        words = network.language_backbone.shared(id_row) + spatial.spatial_emb_matcher(spatial.LayerNorm(total))
        image = network.visual_embedding.image_model(pixel_values=pixels(query, int(config.visual.image_size))[None])
        page = network.visual_embedding.visual_emb_matcher(image.last_hidden_state[0])
        rows.append(torch.cat([words, page]))
        masks.append(torch.tensor([1] * len(ids) + [0] * pads + [1] * len(page)))
    return torch.stack(rows), torch.stack(masks)


@torch.no_grad()
def answer(network: Vt5, tokenizer: Tokenizer, query: Query, scale: float) -> tuple[str, float, float]:
    """Answer, confidence (product over emitted tokens but end and padding) and loss of one query, two passes."""
    backbone = network.language_backbone
    embeddings, mask = encode(network, tokenizer, [query], scale)
    emitted, confidence = [0], 1.0
    for _ in range(network.config.max_answer_tokens - 1):
        out = backbone(inputs_embeds=embeddings, attention_mask=mask, decoder_input_ids=torch.tensor([emitted]))
        probabilities = out.logits[0, -1].softmax(-1)
        token = int(probabilities.argmax())
        emitted.append(token)
        if token == 1:
            break
        if token != 0:
            confidence *= float(probabilities.max())
    labels = torch.tensor([[*tokenizer.encode(query.answers[0].lower()), 1]])
    loss = backbone(inputs_embeds=embeddings, attention_mask=mask, labels=labels).loss
    return tokenizer.decode(emitted), confidence, float(loss)


@torch.no_grad()
def batch_logits(network: Vt5, tokenizer: Tokenizer, queries: Sequence[Query], scale: float) -> Tensor:
    """First-step logits of a batch padded as the reference pads it: between text and page."""
    embeddings, mask = encode(network, tokenizer, queries, scale)
    start = torch.zeros(len(queries), 1, dtype=torch.long)
    return network.language_backbone(inputs_embeds=embeddings, attention_mask=mask, decoder_input_ids=start).logits
