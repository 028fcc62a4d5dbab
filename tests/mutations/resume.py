"""Rules of runs that go on after a kill."""

from __future__ import annotations

from typing import Final

from tests.mutations.mutation import Mutation

RESUME: Final = (
    Mutation(
        "An answer is used again for the same model alone.",
        "resume",
        "attacks/questions/engine.py",
        "content = [__version__, *self._model, query.document.digest,",
        "content = [__version__, query.document.digest,",
        ("tests/attacks/questions/test_engine.py",),
    ),
    Mutation(
        "A folder with the results of other settings is left alone.",
        "resume",
        "pfl_audit/core/run_folder.py",
        'own = previous.get("identity") == self._identity',
        "own = bool(previous)",
        ("tests/core/test_run_folder.py",),
    ),
    Mutation(
        "A file is written whole or not at all.",
        "resume",
        "pfl_audit/files.py",
        'handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{short}.", suffix=".part")',
        "handle, name = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), str(path)",
        ("tests/test_files.py",),
    ),
    Mutation(
        "Processes that train together add their gradients up.",
        "resume",
        "pfl_audit/training/torch_group.py",
        'distributed.all_reduce(flat, group=self._cpu if flat.device.type == "cpu" else None)',
        "flat.clone()",
        ("tests/training/test_several_processes.py",),
    ),
    Mutation(
        "An interrupted training saves the step that it was computing.",
        "resume",
        "pfl_audit/training/loop.py",
        "(last or stop or state.step % schedule.save_every == 0)",
        "(last or state.step % schedule.save_every == 0)",
        ("tests/training/test_central.py",),
    ),
    Mutation(
        "An interrupt waits until a step is whole.",
        "resume",
        "pfl_audit/training/interrupts.py",
        "            waits = True",
        "            raise",
        ("tests/training/test_interrupts.py",),
    ),
    Mutation(
        "A training that goes on has the moments of its optimiser again.",
        "resume",
        "pfl_audit/training/state.py",
        "            if key.startswith(_OPTIMIZER):\n",
        '            if key.startswith("moments/"):\n',
        ("tests/training/test_shampoo.py",),
    ),
    Mutation(
        "A round that goes on divides by all updates that it has received.",
        "resume",
        "pfl_audit/training/federated/server.py",
        '_RECORDED = ("round", "done", "absent", "kept", "losses",',
        '_RECORDED = ("round", "done", "absent", "losses",',
        ("tests/training/federated/test_states.py",),
    ),
    Mutation(
        "The unfinished round of another client is not continued.",
        "resume",
        "pfl_audit/training/federated/partial.py",
        'if (record["round"], record["client"]) != (round_number, client):',
        'if record["round"] != round_number:',
        ("tests/training/federated/test_states.py",),
    ),
    Mutation(
        "Stores of another audit are not merged.",
        "resume",
        "pfl_audit/core/store_merge.py",
        "if not marks or (common is not None and not common & marks):",
        "if not marks:",
        ("tests/core/test_store_merge.py",),
    ),
)
