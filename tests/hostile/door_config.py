"""``config.json`` and the other files of settings of a checkpoint."""

from __future__ import annotations

from tests.hostile.case import Door
from tests.hostile.checkpoints import content, with_bytes, with_json, with_settings, with_text

DOOR = Door("config")
VT5, DONUT, FORMS = "vt5-finetuned", "donut", "layoutlm-public"

_TEXTS = {
    "60 MB of integers": lambda: b'{"a": [' + b"1," * 30_000_000 + b"1]}",
    "nested": lambda: b'{"a":' * 100_000,
    "nested lists": lambda: b"[" * 500_000,
    "an integer of 5,000 digits": lambda: b'{"model_type": ' + b"9" * 5000 + b"}",
    "an empty file": lambda: b"",
    "NUL": lambda: bytes(100),
    "a list": lambda: b"[]",
    "a number": lambda: b"1",
    "not UTF-8": lambda: b'{"a": "\xff"}',
}
for name, text in _TEXTS.items():
    DOOR.add(name, with_bytes(VT5, "config.json", text), 2, says=("config.json",))

_SETTINGS = {
    VT5: (
        ("d_model", 10**9), ("d_model", "192"), ("d_model", 1e308), ("d_model", [192]), ("num_layers", 10**7),
        ("num_decoder_layers", 1000), ("num_layers", True), ("vocab_size", 1 << 20), ("vocab_size", 10**12),
        ("layer_norm_epsilon", "x"), ("layer_norm_epsilon", float("nan")), ("dropout_rate", 2), ("d_kv", -1),
        ("num_heads", 1 << 20), ("d_ff", 1 << 20), ("relative_attention_num_buckets", 1 << 30),
        ("max_2d_position_embeddings", 1 << 20), ("layer_norm_eps", float("inf")), ("hidden_dropout_prob", -1),
        ("vt5_visual.image_size", 1 << 20), ("vt5_visual.num_hidden_layers", 10**6),
        ("vt5_visual.hidden_size", 1 << 20), ("vt5_visual.hidden_act", "eval"),
        ("vt5_visual.layer_norm_eps", "x"), ("vt5_visual", [1]),
        ("vt5_visual.drop_path_rate", "x"), ("vt5_box_scale", ["reference"]),
    ),
    DONUT: (
        ("encoder.embed_dim", 1 << 14), ("encoder.depths", [200] * 8), ("encoder.depths", 5),
        ("encoder.image_size", 10**9), ("encoder.mlp_ratio", 1e308),
        ("encoder.window_size", 0), ("decoder.d_model", 10**9), ("decoder.vocab_size", 1 << 20),
        ("decoder.decoder_layers", 200), ("decoder.max_position_embeddings", 8192), ("decoder", []),
        ("encoder.hidden_act", "eval"), ("decoder.decoder_attention_heads", 7), ("encoder.patch_size", [16, 16]),
    ),
    FORMS: (
        ("hidden_size", 10**9), ("num_hidden_layers", 10**7), ("num_hidden_layers", 200), ("vocab_size", 1 << 20),
        ("type_vocab_size", 10**12), ("hidden_act", "eval"), ("hidden_act", {"a": 1}), ("layer_norm_eps", "x"),
        ("initializer_range", 1e400), ("max_2d_position_embeddings", 1 << 20), ("hidden_dropout_prob", 7),
        ("num_attention_heads", 0), ("model_type", ["layoutlm"]), ("model_type", {"a": 1}),
        ("pfl_audit", 5), ("pfl_audit.visual", {"side": 10**9}),
        ("pfl_audit.labels", ["x"] * 100_000), ("pfl_audit.max_tokens", 10**9), ("pfl_audit.task", ["mlm"]),
        ("pfl_audit.task", {"a": 1}), ("pfl_audit.modality", []), ("pad_token_id", 10**6), ("bbox_scale", "x"),
    ),
}  # fmt: skip
for fixture, settings in _SETTINGS.items():
    for place, value in settings:
        DOOR.add(f"{fixture} {place} {value!r:.40}", with_settings(fixture, place, value), 2, says=("ckpt",))

for labels in (3 * 10**7, 10**9):
    for fixture in (VT5, DONUT, FORMS):
        # No label is ever made of it: the model opens as it would without.
        DOOR.add(f"{fixture} num_labels {labels}", with_settings(fixture, "num_labels", labels), 0)
DOOR.add("many labels", with_json(FORMS, "config.json", content(FORMS, "config.json") | {
    "architectures": ["LayoutLMForTokenClassification"], "pfl_audit": {"task": "ee-bio"},
    "id2label": {str(number): "x" for number in range(50_000)}}), 2, says=("ckpt", "config.json"))  # fmt: skip
DOOR.add("a class of 5,000 digits", with_json(FORMS, "config.json", content(FORMS, "config.json") | {
    "pfl_audit": {"task": "ee-bio"}, "id2label": {"9" * 5000: "x"}}), 2, says=("config.json",))  # fmt: skip
DOOR.add("a model type that draws on the terminal", with_json(FORMS, "config.json",
         {"model_type": "\x1b[2J" * 100_000}), 2, says=("ckpt",))  # fmt: skip

for fixture, file in ((VT5, "generation_config.json"), (DONUT, "preprocessor_config.json")):
    for name in ("60 MB of integers", "nested lists", "NUL"):
        DOOR.add(f"{file} {name}", with_bytes(fixture, file, _TEXTS[name]), 2, says=(file,))
DOOR.add("longest answer", with_text(VT5, "generation_config.json", '{"max_length": 1000000000}'), 2,
         says=("generation_config.json",))  # fmt: skip
_PIXELS = {
    "size": ([10**9, 10**9], [1 << 12, 1 << 12, 1], {"height": 1}, {"height": "1", "width": 1}, "x", [], {}),
    "image_mean": (10**400, [1e400, 0, 0], "abc", [0.5] * 100_000, [[1], [1], [1]], [10**400] * 3),
    "image_std": ([0, 0, 0], [float("nan")] * 3), "resample": (10**9, "x"), "rescale_factor": ([], "x", 10**400),
    "do_resize": ([],),
}  # fmt: skip
for key, values in _PIXELS.items():
    for value in values:
        said = content(DONUT, "preprocessor_config.json") | {key: value}
        DOOR.add(f"preprocessor {key} {value!r:.30}", with_json(DONUT, "preprocessor_config.json", said), 2,
                 says=("preprocessor_config.json",))  # fmt: skip
# What is not read does no harm.
for key, value in (("num_labels", 10**9), ("out_indices", [10**9])):
    DOOR.add(f"{VT5} vt5_visual.{key}", with_settings(VT5, f"vt5_visual.{key}", value), 0)
DOOR.add("architectures flood", with_settings(FORMS, "architectures", ["a" * 1_000_000]), 0)
DOOR.add("a page of the model's own that is not used", with_settings(DONUT, "encoder.image_size", [4096, 4096]), 0)
