"""Opens rapidocr with the telemetry of onnxruntime disabled. No other module may import either of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pfl_audit.errors import UsageError
from pfl_audit.inputs import is_regular, sha256_input

_SETTINGS = {"Global.log_level": "critical", "EngineConfig.onnxruntime.intra_op_num_threads": 1}
"""No log lines, and one thread: on two cores the default number of threads is several times slower."""
DEFAULT_LANGUAGE = "en"
_RECOGNISERS = (("PP-OCRv6", "small"), ("PP-OCRv5", "mobile"), ("PP-OCRv4", "mobile"))
"""Version and size of the recognisers, the one that comes in the package first."""


def open_rapidocr(text_score: float = 0.5, language: str = DEFAULT_LANGUAGE, *, words: bool = False) -> Any:
    """Open rapidocr with the weights that come in its package.

    onnxruntime resolves a telemetry host of its vendor and keeps a device id in the user's cache, unless this variable
    forbids it before it is loaded; its own ``disable_telemetry_events`` comes too late.

    Args:
        text_score: Confidence below which a line is left out.
        language: Language of the recogniser, as rapidocr names it.
        words: Whether lines come with the boxes of their parts.

    Raises:
        UsageError: rapidocr is missing, or has no recogniser of the language on this machine.
    """
    rapidocr = _import_rapidocr()
    params = {**_SETTINGS, "Global.text_score": text_score, "Global.return_word_box": words}
    if language != DEFAULT_LANGUAGE:
        params |= _recogniser(language)
    return rapidocr.RapidOCR(params=params)


def require_language(language: str) -> None:
    """Check that rapidocr can read a language without a download.

    Raises:
        UsageError: rapidocr is missing, or has no recogniser of the language on this machine.
    """
    _import_rapidocr()
    if language != DEFAULT_LANGUAGE:
        _recogniser(language)


def _import_rapidocr() -> Any:
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        import rapidocr
    except ImportError as error:
        raise UsageError("reading pictures needs rapidocr", "Run: pip install rapidocr onnxruntime") from error
    return rapidocr


def _recogniser(language: str) -> dict[str, Any]:
    """Settings of the recogniser of a language whose weights are on this machine: rapidocr would download others."""
    import rapidocr
    from rapidocr.inference_engine.base import FileInfo, InferSession
    from rapidocr.utils.typings import EngineType, ModelType, OCRVersion, TaskType

    missing = ""
    for version, size in _RECOGNISERS:
        asked = FileInfo(EngineType.ONNXRUNTIME, OCRVersion(version), TaskType.REC, language, ModelType(size))
        try:
            found = InferSession.get_model_url(asked)
        except ValueError:  # the version does not have the language
            continue
        file = Path(rapidocr.__file__).parent / "models" / Path(found["model_dir"]).name
        if is_regular(file) and sha256_input(file) == found["SHA256"]:
            return {
                "Rec.lang_type": language,
                "Rec.ocr_version": OCRVersion(version),
                "Rec.model_type": ModelType(size),
            }
        missing = missing or f"Put {file.name} of rapidocr's models into {file.parent}"
    engine: Any = rapidocr.RapidOCR
    known = ", ".join(engine.list_supported_langs("rec", *_RECOGNISERS[0]))
    raise UsageError(
        f"rapidocr has no recogniser of '{language:.40}' on this machine", missing or f"Give one of: {known}"
    )
