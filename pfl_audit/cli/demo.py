"""``demo``: audit the embedded models, from any folder, without anything at hand."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from pfl_audit.child_process import LOOK, follow
from pfl_audit.cli import options
from pfl_audit.errors import AuditError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess
    from types import TracebackType

    from pfl_audit.core.plan import AuditPlan
    from pfl_audit.core.results import Results

CHECKS = (
    "memorization.generalisation",
    "memorization.provider_name",
    "memorization.provider_email",
    "memorization.unprompted",
    "membership",
)
CONTROL = ("memorization.generalisation", "memorization.provider_name", "membership")
"""What the models are asked that are there for comparison."""


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder of the run.")] = Path("audit-demo"),
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    reveal: options.Reveal = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Audit the embedded models: fine-tuned on invoices of companies that do not exist, with privacy and without.

    First, scrubbed fields of forms are reconstructed with a model that was trained on them. Then the fine-tuned model
    is audited, which leaks by construction; comparison.html has the pre-trained and the private model beside it. A
    model that was fine-tuned on other companies is the control. Last, a filled form is recovered from one shared
    gradient. The exit code is 0 whatever is found.

    Example: pfl-audit demo --out audit-demo
    """
    from pfl_audit.cli.audit_command import run_and_show
    from pfl_audit.cli.console import note, print_json
    from pfl_audit.cli.summary import show_comparison
    from pfl_audit.core.comparison import compare
    from pfl_audit.core.renderers import render_comparison

    plans = demo_plans(out, seed, device, reveal=reveal)

    def run(one: AuditPlan, ready: Callable[[], None] | None = None) -> Results:
        return run_and_show(one, as_json=False, quiet=quiet, gate=False, show=not as_json, ready=ready)

    with SecondProcess([plans.before, plans.private]) as beside:

        def begin() -> None:
            """Once the folder is claimed, show the shortest audit, and start those that run beside the longest."""
            run(plans.forms)
            beside.start()

        results = run(plans.tuned, begin)
        run(plans.gradients)
        found = beside.results()
    comparison = compare([(found[0], plans.before.out), (results, out), (found[1], plans.private.out)])
    pages = render_comparison(comparison, out / "comparison.html")
    if as_json:  # once everything is done, so that a failure is the only document
        note(f"side by side: {', '.join(map(str, pages))}")
        print_json(results.model_dump(mode="json"))
    else:
        show_comparison(comparison, pages)


class DemoPlans(NamedTuple):
    """The audits of the demo."""

    tuned: AuditPlan
    before: AuditPlan
    private: AuditPlan
    forms: AuditPlan
    gradients: AuditPlan


def demo_plans(out: Path, seed: int, device: str, *, reveal: bool) -> DemoPlans:
    """The audits of the demo, in folders below ``out``."""
    from pfl_audit.core.plan import AuditPlan

    fixtures = options.embedded()

    def plan(
        title: str,
        model: str,
        folder: Path,
        checks: tuple[str, ...],
        subject: str,
        given: Mapping[str, object],
        settings: Mapping[str, Mapping[str, object]] | None = None,
    ) -> AuditPlan:
        return AuditPlan(
            title=title,
            out=folder,
            model=str(fixtures / model),
            inputs={subject: given},
            settings=settings or {},
            checks=checks,
            # The forms have a store of their own: they are audited while the first audit has the other one open.
            store=out / ("forms.sqlite" if subject == "forms" else "responses.sqlite"),
            seed=seed,
            device=device,
            reveal=reveal,
            command=f"pfl-audit demo --out {out}",
        )

    given: dict[str, object] = {
        "red": fixtures / "red" / "demo.jsonl",
        "pretrained": str(fixtures / "vt5-pretrained"),
        "control": str(fixtures / "vt5-out"),
        "blue": fixtures / "blue-secrets",
        "classes_random": "units",  # one recipe draws all providers, and the first are the members
    }
    tuned = plan(
        "Fine-tuned demo model, made so that attacks can succeed", "vt5-finetuned", out, CHECKS, "questions", given
    )
    before = plan(
        "Pre-trained demo model",
        "vt5-pretrained",
        out / "pre-trained",
        CONTROL,
        "questions",
        given | {"pretrained": None},
    )
    private = plan(
        "Private demo model, which learned little",
        "vt5-private",
        out / "with-privacy",
        CONTROL,
        "questions",
        given,
    )
    forms = plan(
        "Reconstruction of scrubbed fields",
        "layoutlm-private",
        out / "reconstruction",
        ("reconstruction",),
        "forms",
        {"forms": fixtures / "forms", "public": str(fixtures / "layoutlm-public")},
        {"reconstruction": options.embedded_settings("reconstruction")},
    )
    gradients = plan(
        "Gradient inversion",
        "donut",
        out / "inversion",
        ("inversion.text", "inversion.lbfgs"),
        "gradients",
        {"template": fixtures / "templates" / "form-01" / "template.png", "public_form": True},
    )
    return DemoPlans(tuned, before, private, forms, gradients)


class SecondProcess:
    """A process that runs audits one after another and prints nothing; as a context, it ends with the block.

    Signals are handled by the process that started it alone. It ends with that process, however that ends.

    Args:
        plans: What to audit.
    """

    def __init__(self, plans: Sequence[AuditPlan]) -> None:
        self._plans = tuple(plans)
        self._process: BaseProcess | None = None

    def start(self) -> None:
        """Begin, and divide the threads of torch between the two processes."""
        from multiprocessing import get_context

        import torch

        threads = max(1, torch.get_num_threads() // 2)
        torch.set_num_threads(threads)
        context = get_context("spawn")
        self._found, there = context.Pipe(duplex=False)
        self._process = context.Process(target=_audit, args=(self._plans, threads, there, os.getpid()), daemon=True)
        self._process.start()
        there.close()

    def results(self) -> list[Results]:
        """Wait for the results of all plans, in order; their reports are rendered.

        Raises:
            AuditError: An audit failed, or the process was killed.
        """
        try:
            found: list[Results] | tuple[str, str] = self._found.recv()
        except EOFError as error:
            time.sleep(LOOK / 4)  # a signal to all of us is an interrupt, and may reach this process last
            raise AuditError(
                "a process of the demo was killed, perhaps for want of memory", "Repeat the command to go on from there"
            ) from error
        if isinstance(found, tuple):
            raise AuditError(*found)
        return found

    def __enter__(self) -> SecondProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.join()


def _audit(plans: Sequence[AuditPlan], threads: int, there: Connection, parent: int) -> None:
    follow(parent)
    from pfl_audit.cli.process import restrain

    restrain()
    import torch

    from pfl_audit.api import render
    from pfl_audit.cli.console import make_progress
    from pfl_audit.core.runner import run_audit

    torch.set_num_threads(threads)
    try:
        found = []
        for plan in plans:
            found.append(run_audit(plan, make_progress(quiet=True)))
            render(found[-1], plan.out)
        there.send(found)
    except AuditError as error:
        there.send((error.problem, error.remedy))
    except Exception as error:  # whose text may hold a value
        there.send((f"internal error: {type(error).__name__}", "Repeat the command, and report it"))
