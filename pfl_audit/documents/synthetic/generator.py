"""Generator of synthetic corpora: providers, their documents, and the assignment to clients."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.keys import PROVIDER_KEYS, SECRET_KEYS, draw_question
from pfl_audit.documents.synthetic.canvas import Canvas
from pfl_audit.documents.synthetic.invoice import Invoice, draw_invoice
from pfl_audit.documents.synthetic.providers import WORDINGS, Provider, draw_providers
from pfl_audit.documents.synthetic.render import render_invoice
from pfl_audit.documents.synthetic.tables import ask_cells, ask_statements, draw_table, render_table
from pfl_audit.documents.writers import write_pfl_docvqa
from pfl_audit.errors import UsageError
from pfl_audit.files import atomic_write, write_json
from pfl_audit.filled_folder import whole_or_nothing
from pfl_audit.progress import Progress

JPEG_QUALITY = 40
MOST_A_PROVIDER = 10_000
"""Largest mean number of documents of a provider, and of questions of a document."""
MOST_PAGES = 1_000_000
"""Largest expected number of pages: a page takes some 20 ms, and the questions stay in memory."""
ASKED = {
    "provider": dict.fromkeys(PROVIDER_KEYS, 3.0) | {"provider_name": 9.0} | dict.fromkeys(SECRET_KEYS, 1.0),
    "payables": {
        "provider_name": 2.0,
        "invoice_date": 3.0,
        "due_date": 3.0,
        "customer_name": 2.0,
        "total_amount": 2.0,
        "subtotal": 1.0,
        "tax_amount": 1.0,
    },
}
"""Weights of the keys that are asked for; of provider every other key has 1, of payables none."""
KINDS = ("invoices", "tables", "statements")
"""Invoices with questions for their fields, tables with questions for cells, tables with statements."""
_LOOKALIKES = {"0": "O", "O": "0", "1": "l", "l": "1", "5": "S", "S": "5", "8": "B", "B": "8", "i": "l", "m": "rn"}
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Recipe:
    """Settings of a synthetic corpus.

    Attributes:
        members: Providers of the BLUE clients (training data).
        non_members: Providers of the negative splits only.
        red_providers: Providers of each class in RED, the first ones of the class.
        clients: BLUE clients; members are assigned to them in turn.
        documents: Mean number of training documents per member, with a long tail.
        red_documents: Mean number of RED documents per provider.
        questions: Mean number of questions per document.
        ocr_noise: Share of OCR words that are misread.
        seed: Seed of all random draws.
        wordings: Labels and dates of the pages, a key of WORDINGS; no industry's are on a general page.
        asked: What is asked for, a key of ASKED; of invoices alone.
        kind: Kind of documents, one of KINDS.
    """

    members: int = 120
    non_members: int = 120
    red_providers: int = 100
    clients: int = 10
    documents: float = 8.0
    red_documents: float = 2.5
    questions: float = 5.5
    ocr_noise: float = 0.01
    seed: int = 0
    wordings: str = "general"
    asked: str = "provider"
    kind: str = "invoices"

    def check(self) -> None:
        """Raise UsageError if a setting is out of range."""
        if min(self.members, self.clients) < 1 or self.non_members < 0:
            raise UsageError("a corpus needs members and clients", "Set --members and --clients to 1 or more")
        if self.clients > self.members:
            raise UsageError(f"{self.clients} clients cannot share {self.members} members", "Lower --clients")
        if not 0 <= self.red_providers <= min(self.members, self.non_members):
            raise UsageError(
                f"RED cannot have {self.red_providers} providers of each class",
                "Lower --red-providers, or raise --members and --non-members",
            )
        if not 0.0 <= self.ocr_noise <= 1.0:
            raise UsageError("OCR noise is a share between 0 and 1", "Correct --ocr-noise")
        if self.wordings not in WORDINGS:
            raise UsageError(f"there are no wordings {self.wordings!r}", f"Give one of {', '.join(WORDINGS)}")
        if self.asked not in ASKED:
            raise UsageError(f"questions cannot be about {self.asked!r}", f"Give one of {', '.join(ASKED)}")
        if self.kind not in KINDS:
            raise UsageError(f"there are no documents of kind {self.kind!r}", f"Give one of {', '.join(KINDS)}")
        if not all(1 <= mean <= MOST_A_PROVIDER for mean in (self.documents, self.red_documents, self.questions)):
            raise UsageError(
                f"the means must be 1 to {MOST_A_PROVIDER:,}", "Correct --documents, --red-documents or --questions"
            )
        held_out = self.members + self.non_members + 2 * self.red_providers * self.red_documents
        if (pages := self.members * self.documents + held_out) > MOST_PAGES:
            raise UsageError(
                f"a corpus of some {pages:,.0f} pages is larger than {MOST_PAGES:,}", "Lower --members or --documents"
            )


def make_corpus(recipe: Recipe, folder: Path, progress: Progress) -> Corpus:
    """Draw a corpus and write it in the layout of PFL-DocVQA.

    The same recipe gives the same bytes. Every purpose has its own random generator, so that, for example, the number
    of RED documents does not change BLUE.

    Args:
        folder: Output folder; must be empty or missing.
        progress: Reports the pages that are done.

    Raises:
        UsageError: A setting is out of range, or the folder is not empty.
    """
    recipe.check()
    _, plan_seed, pages_seed = _seeds(recipe)
    providers = companies_of(recipe)
    plan = _plan(recipe, providers, np.random.default_rng(plan_seed))
    queries: list[Query] = []
    page_seeds = pages_seed.spawn(len(plan))
    membership = {provider.name: Membership.MEMBER for provider in providers[: recipe.members]}
    membership |= {provider.name: Membership.NON_MEMBER for provider in providers[recipe.members :]}
    with whole_or_nothing(folder):
        with progress.task("pages", len(plan)) as task:
            for (split, provider, client), seed in zip(plan, page_seeds, strict=True):
                queries += _draw_page(recipe, folder, split, provider, client, np.random.default_rng(seed))
                task.advance()
        corpus = Corpus(tuple(queries), membership, "pfl-docvqa")
        write_pfl_docvqa(corpus, folder)
        write_json(folder / "recipe.json", asdict(recipe), private=False)
    return corpus


def companies_of(recipe: Recipe) -> list[Provider]:
    """Companies of a recipe, members first."""
    count, rng = recipe.members + recipe.non_members, np.random.default_rng(_seeds(recipe)[0])
    return draw_providers(count, rng, wordings=recipe.wordings)


def _seeds(recipe: Recipe) -> list[np.random.SeedSequence]:
    """Seeds of the companies, of the assignment of pages, and of the pages."""
    return np.random.SeedSequence(recipe.seed).spawn(3)


def _plan(
    recipe: Recipe, providers: list[Provider], rng: np.random.Generator
) -> list[tuple[str, Provider, int | None]]:
    """One (split, provider, client) per page to draw, split by split."""
    members, others = providers[: recipe.members], providers[recipe.members :]
    plan: list[tuple[str, Provider, int | None]] = []
    for client in range(recipe.clients):
        for provider in members[client :: recipe.clients]:
            count = _long_tail(recipe.documents, rng)
            plan += [(f"blue_train_client_{client}", provider, client)] * count
    held_out = [("blue_valid", provider) for provider in members[::2]]
    held_out += [("blue_test_positive", provider) for provider in members[1::2]]
    held_out += [("blue_test_negative", provider) for provider in others[1::2]]
    for split, chosen in (("red_test_positive", members), ("red_test_negative", others)):
        for provider in chosen[: recipe.red_providers]:
            held_out += [(split, provider)] * _long_tail(recipe.red_documents, rng)
    return plan + [(split, provider, None) for split, provider in held_out]


def _long_tail(mean: float, rng: np.random.Generator) -> int:
    """A positive count from a geometric distribution with the given mean, capped at ten times the mean."""
    return min(int(rng.geometric(1.0 / mean)), int(10 * mean))


def _draw_page(
    recipe: Recipe, folder: Path, split: str, provider: Provider, client: int | None, rng: np.random.Generator
) -> list[Query]:
    canvas, ask = _CONTENTS[recipe.kind](recipe, provider, rng)
    page = f"{int.from_bytes(rng.bytes(12), 'big'):024x}_1"
    path = folder / "images" / split.split("_", 1)[0] / f"{page}.jpg"
    picture = io.BytesIO()
    canvas.page.save(picture, "JPEG", quality=JPEG_QUALITY, optimize=True)
    with atomic_write(path, private=False) as file:
        file.write(picture.getvalue())
    words = add_ocr_errors(canvas.words, recipe.ocr_noise, rng)
    document = Document(page, provider.name, tuple(words), canvas.boxes(), PageImage(path), split, client)
    return [
        Query(f"{page}-{number}", document, question, (answer,), key)
        for number, (key, question, answer) in enumerate(ask())
    ]


_Content = tuple[Canvas, Callable[[], Iterable[tuple[str, str, str]]]]
"""A page, and what draws key, question and answer of each of its queries."""


def _invoice(recipe: Recipe, provider: Provider, rng: np.random.Generator) -> _Content:
    invoice = draw_invoice(provider, rng)

    def ask() -> Iterator[tuple[str, str, str]]:
        for key in _draw_keys(recipe, invoice, rng):
            yield key, draw_question(key, rng), invoice.values[key].lower()

    return render_invoice(invoice), ask


def _table(recipe: Recipe, provider: Provider, rng: np.random.Generator) -> _Content:
    table, questions = draw_table(rng), ask_cells if recipe.kind == "tables" else ask_statements

    def ask() -> list[tuple[str, str, str]]:
        count = max(1, int(rng.poisson(recipe.questions)))
        return [("other", question, answer) for question, answer in questions(table, count, rng)]

    return render_table(provider, table), ask


_CONTENTS = {"invoices": _invoice, "tables": _table, "statements": _table}


def _draw_keys(recipe: Recipe, invoice: Invoice, rng: np.random.Generator) -> list[str]:
    """Keys that are asked for: mostly those of the provider, secrets rarely."""
    chosen = ASKED[recipe.asked]
    rest = 1.0 if recipe.asked == "provider" else 0.0
    weights = {key: weight for key in invoice.values if (weight := chosen.get(key, rest))}
    count = min(max(1, int(rng.poisson(recipe.questions))), len(weights))
    shares = np.array(list(weights.values()))
    drawn = rng.choice(len(weights), size=count, replace=False, p=shares / shares.sum())
    return [list(weights)[index] for index in sorted(drawn)]


def add_ocr_errors(words: list[str], share: float, rng: np.random.Generator) -> list[str]:
    """Misread a share of the words by one character each.

    Args:
        share: Share of words that are misread, 0 to 1.

    Returns:
        The words with errors, none of them empty.
    """
    hit = rng.random(len(words)) < share
    return [_misread(word, rng) if wrong else word for word, wrong in zip(words, hit, strict=True)]


def _misread(word: str, rng: np.random.Generator) -> str:
    at = int(rng.integers(len(word)))
    seen = _LOOKALIKES.get(word[at], _LETTERS[int(rng.integers(len(_LETTERS)))])
    if len(word) > 3 and rng.random() < 0.3:
        seen = ""
    return word[:at] + seen + word[at + 1 :]
