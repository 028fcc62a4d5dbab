"""Opens rapidocr with the telemetry of onnxruntime disabled. No other module may import either of them."""

from __future__ import annotations

import os
from typing import Any

from pfl_audit.errors import UsageError

_SETTINGS = {"Global.log_level": "critical", "EngineConfig.onnxruntime.intra_op_num_threads": 1}
"""No log lines, and one thread: on two cores the default number of threads is several times slower."""


def open_rapidocr(text_score: float = 0.5) -> Any:
    """Open rapidocr with the weights that come in its package.

    onnxruntime resolves a telemetry host of its vendor and keeps a device id in the user's cache, unless this variable
    forbids it before it is loaded; its own ``disable_telemetry_events`` comes too late.

    Args:
        text_score: Confidence below which a line is left out.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        from rapidocr import RapidOCR
    except ImportError as error:
        raise UsageError("reading pictures needs rapidocr", "Run: pip install rapidocr onnxruntime") from error
    return RapidOCR(params={**_SETTINGS, "Global.text_score": text_score})
