"""``reconstruct --as-published`` without a model."""

import json
from pathlib import Path

from pfl_audit.cli.main import run


def test_as_published_leaves_the_tuned_settings_of_the_embedded_model_out(tmp_path: Path) -> None:
    """These settings are ours; the user stated none of them."""
    out = tmp_path / "run"
    run(
        [
            "reconstruct",
            "--out",
            str(out),
            "--fields",
            "3",
            "--attempts",
            "2",
            "--candidates",
            "4",
            "--as-published",
            "-q",
        ]
    )
    check = json.loads((out / "results.json").read_text())["checks"][0]
    assert (check["settings"]["public_temperature"], check["settings"]["decay_start"]) == (0.3, 3.0)
    assert check["as_published"] == (
        "settings as published: ranking = perplexity ratio, control = false; "
        "stated by the user instead: fields = 3, attempts = 2, candidates = 4"
    )
