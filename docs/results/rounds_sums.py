"""Makes the sums that secure aggregation shows of kept messages: rounds_sums.py RUN OUT CLIENTS."""

import json
import shutil
import sys
from pathlib import Path

from safetensors.torch import load_file, save_file

from pfl_audit.training.federated.kept import MODEL, RECORD, SUM, kept_path, messages_of


def main(run: Path, out: Path, clients: int) -> None:
    """Write a run whose messages are sums over so many clients, in the order of their numbers."""
    shutil.copytree(run, out)
    given, made = kept_path(run), kept_path(out)
    made.mkdir(mode=0o700)
    shutil.copy(given / RECORD, made / RECORD)
    rounds: dict[int, list[Path]] = {}
    for message in messages_of(given):
        rounds.setdefault(message.round, []).append(message.path)
    for paths in rounds.values():
        folder = made / paths[0].parent.name
        folder.mkdir()
        shutil.copy(paths[0].parent / MODEL, folder / MODEL)
        for at in range(0, len(paths), clients):
            some, total = paths[at : at + clients], load_file(paths[at])
            for path in some[1:]:
                for name, part in load_file(path).items():
                    total[name] += part
            beside = [json.loads(path.with_suffix(".json").read_text()) for path in some]
            origin = {
                "clients": [client for one in beside for client in one["clients"]],
                "noise": 0.0,
                "queries": sorted({query for one in beside for query in one["queries"]}),
            }
            name = SUM if clients >= len(paths) else f"{SUM}-{at // clients}"
            (folder / f"{name}.json").write_text(json.dumps(origin))
            save_file(total, folder / f"{name}.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
