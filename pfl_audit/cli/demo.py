"""``demo``: audit the embedded models, from any folder, without anything at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from pfl_audit.cli import options

if TYPE_CHECKING:
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
    from pfl_audit.cli.second_process import SecondProcess
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
        "classes_random": True,  # one recipe draws all providers, and the first are the members
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
