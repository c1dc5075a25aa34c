"""ICLM: a router sends a prompt to domain modules beside an invariant one (part 3x)."""

from causalnb.iclm import ICLMForCausalLM


def build(base, task):
    """Two domain modules on the base, which is trained with them: its weights are random here."""
    model = ICLMForCausalLM.from_base(base, num_modules=2, lora={"r": 8, "alpha": 16})
    return model.requires_grad_(True)


def loss(model, batch, task):
    """The loss of ICLM, which routes by the prompt and reads no label of a domain."""
    return model(batch["input_ids"], attention_mask=batch["attention_mask"], labels=batch["labels"]).loss
