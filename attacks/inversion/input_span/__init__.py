"""Which inputs a model without absolute positions was given: the span of the gradients of its linear layers."""
