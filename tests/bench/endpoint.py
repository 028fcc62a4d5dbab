"""``python -m tests.bench.endpoint [COUNT]``: questions to ``transformers serve``, with kills and a restart.

A recording server is between the audit and the local server, so that every request that was answered is known. The
process that asks is killed three times, and the local server is killed and started again while the third one asks.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path

from pfl_audit.documents.synthetic.generator import make_corpus
from pfl_audit.progress import Silent
from tests.conftest import RECIPE
from tests.models.endpoint.asking import Killed, Setting, ask_and_kill, free_port, start_server, tokens_of
from tests.models.endpoint.local import LocalServer, save_tiny_llava

IN_FLIGHT = 4


def main() -> None:
    """Run whole and cut, and print what the issue asks for."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_corpus(RECIPE, folder / "corpus", Silent())
        save_tiny_llava(folder / "tiny")
        local, port, log = LocalServer(folder), free_port(), folder / "log"
        between = start_server(port, log, local.url)
        inputs = ["endpoint_model=tiny", f"endpoint_concurrency={IN_FLIGHT}", "endpoint_answer_tokens=16"]
        setting = Setting(folder / "corpus", f"http://127.0.0.1:{port}/v1", count, log, inputs)
        try:
            (folder / "whole").mkdir()
            began = time.monotonic()
            whole = ask_and_kill(setting, folder / "whole", [])
            print(f"whole run: {time.monotonic() - began:.0f} s for {count:,} questions")
            _estimate(whole, tokens_of(log))
            log.unlink()
            _cut(setting, folder / "cut", whole, local)
        finally:
            between.kill()
            local.kill()


def _estimate(whole: Killed, answered: int) -> None:
    said = "\n".join(whole.found["said"])
    revised = [int(one.replace(",", "")) for one in re.findall(r"answers: ([\d,]+) tokens sent and ([\d,]+)", said)[0]]
    ceiling = int(re.findall(r"requests, ([\d,]+) tokens", said)[0].replace(",", ""))
    used = whole.found["endpoint_tokens_sent"] + whole.found["endpoint_tokens_answered"]
    print(said)
    print(f"tokens of usage: {used:,} counted by the audit, {answered:,} by the recording server")
    print(
        f"of the estimate as revised: {100 * used / sum(revised):.1f} %; of the ceiling: {100 * used / ceiling:.1f} %"
    )


def _cut(setting: Setting, folder: Path, whole: Killed, local: LocalServer) -> None:
    folder.mkdir()
    restarts: list[int] = []
    moments = [int(share * setting.count) for share in (0.1, 0.4, 0.8)]

    def watch(number: int, stored: int) -> None:
        if number == 2 and stored >= 0.6 * setting.count and not restarts:
            local.kill()
            restarts.append(stored)
            local.start()

    killed = ask_and_kill(setting, folder, moments, watch)
    print(f"killed with {killed.stored} answers stored, the server restarted at {restarts[0]:,}")
    print(f"questions answered again after each kill: {killed.again} (in flight at once: {IN_FLIGHT})")
    print(f"questions asked that were stored: {killed.beyond}; asked by the last process: {killed.found['asked']:,}")
    print(f"same answers: {killed.found['answers'] == whole.found['answers']}, of {len(killed.found['answers']):,}")


if __name__ == "__main__":
    main()
