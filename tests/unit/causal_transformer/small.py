"""Small maps, masks and models."""

import torch

from causalnb.causal_transformer import (
    CausalTransformerConfig,
    CausalTransformerForConditionalGeneration,
    CausalTransformerForSequenceClassification,
)

VOCABULARY, PAD, START, EOS = 23, 0, 1, 2
SIZES = dict(
    vocab_size=VOCABULARY, d_model=12, num_heads=2, d_ff=20, encoder_layers=2, decoder_layers=2, dropout=0.0
)


def padded(tokens=6) -> torch.Tensor:
    """valid (3, T): no padding, padding on the right, padding on the left."""
    valid = torch.ones(3, tokens, dtype=torch.bool)
    valid[1, tokens - 2 :] = False
    valid[2, :2] = False
    return valid


def maps(valid=None, causal=False, tokens=6, heads=2, batch=3, sharp=2.0) -> torch.Tensor:
    """Random attention maps (B, H, T, T); a token that is padding looks at itself."""
    scores = sharp * torch.randn(batch, heads, tokens, tokens)
    seen = torch.ones(batch, 1, tokens, tokens, dtype=torch.bool)
    if causal:
        seen = seen.tril()
    if valid is not None:
        seen = (seen & valid[:, None, None]) | torch.eye(tokens, dtype=torch.bool)
    return scores.masked_fill(~seen, -torch.inf).softmax(-1)


def classifier(seed=0, **settings) -> CausalTransformerForSequenceClassification:
    """A tiny encoder with a head."""
    torch.manual_seed(seed)
    return CausalTransformerForSequenceClassification(CausalTransformerConfig(**SIZES | settings))


def translator(seed=0, **settings) -> CausalTransformerForConditionalGeneration:
    """A tiny encoder-decoder whose embeddings are large enough for answers that differ."""
    torch.manual_seed(seed)
    return CausalTransformerForConditionalGeneration(CausalTransformerConfig(**SIZES | settings))


def batch_of(tokens=7, seed=3, rows=4) -> dict:
    """input_ids (4, T) and their mask, padded on the right, in one row on the left."""
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, VOCABULARY, (rows, tokens), generator=draw)
    mask = torch.ones_like(ids)
    mask[1, tokens - 2 :] = 0
    mask[2, :2] = 0
    return dict(input_ids=ids.masked_fill(mask == 0, PAD), attention_mask=mask)


def labels_of(tokens=6, seed=5, rows=4) -> torch.Tensor:
    """Labels (4, T) with -100 at the end of a row."""
    labels = torch.randint(3, VOCABULARY, (rows, tokens), generator=torch.Generator().manual_seed(seed))
    labels[1, tokens - 3 :] = -100
    return labels
