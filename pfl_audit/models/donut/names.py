"""Names in the ``config.json`` of a Donut, for its family and its settings."""

MODEL_TYPE = "vision-encoder-decoder"
ENCODER_TYPE = "donut-swin"
DECODER_TYPE = "mbart"
