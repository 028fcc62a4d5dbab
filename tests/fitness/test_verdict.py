from dataclasses import replace
from pathlib import Path

import numpy as np

from pfl_audit.core.power import NEEDED
from pfl_audit.core.redaction import Redactor
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership
from pfl_audit.fitness.check import compare_units, measure
from pfl_audit.fitness.classes import is_testable
from pfl_audit.fitness.page_look import PageLooks
from pfl_audit.fitness.verdict import Fitness, decide, fitness_of, warnings_of
from pfl_audit.progress import Silent
from tests.fitness.corpora import SIDES, corpus_of, drawn, page_of, with_pictures

FEW = 199


def verdict_on(corpus: Corpus, training: list[Document] | None = None, seed: int = 0) -> Fitness:
    looks = PageLooks()
    for page in corpus.documents:
        assert looks.unusable(page) is None
    return decide(measure(corpus, looks, np.random.default_rng(seed), Silent(), training or [], FEW))


def test_members_of_2019_and_others_of_2020_are_unfit_because_of_the_years() -> None:
    found = verdict_on(drawn(60, np.random.default_rng(0), years=(2019, 2020)))
    assert found.verdict == "unfit"
    (reason,) = found.reasons
    assert "years and months of the dates" in reason
    assert "mean year: 2019 for members, 2020 for non-members" in reason


def test_classes_that_differ_in_their_pictures_alone(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    found = verdict_on(with_pictures(drawn(60, rng), tmp_path, rng, differ=True))
    assert found.verdict == "unfit"
    assert any("the page images of members and non-members are distributed differently" in one for one in found.reasons)
    assert found.found.classes is not None
    assert {one.kind for one in found.found.classes.differences} == {"images"}


def test_equal_classes_are_fit_and_few_cannot_be_decided(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    assert verdict_on(with_pictures(drawn(60, rng), tmp_path, rng, differ=False)).verdict == "fit"
    few = verdict_on(drawn(2 * NEEDED - 2, rng))
    assert (few.verdict, few.reasons) == (
        "cannot be decided",
        (f"{NEEDED - 1} member and {NEEDED - 1} non-member providers, {NEEDED} of each are needed",),
    )
    tiny = verdict_on(drawn(4, rng))
    assert (tiny.verdict, tiny.found.classes) == ("cannot be decided", None)
    assert not is_testable(2, 2)
    assert is_testable(4, 4)


def test_few_providers_that_differ_are_unfit() -> None:
    assert verdict_on(drawn(20, np.random.default_rng(3), years=(2019, 2020))).verdict == "unfit"


def test_pages_on_both_sides() -> None:
    rng = np.random.default_rng(5)
    corpus = drawn(60, rng)
    copies = {number: corpus.documents[2 * number] for number in (0, 2, 4, 6)}
    queries = list(corpus.queries)
    for number, page in copies.items():
        other = queries[2 * number + 2].document
        copy = replace(page, id=other.id, provider=other.provider, words=(*page.words[:-1], "new"))
        queries[2 * number + 2] = replace(queries[2 * number + 2], document=copy)
    found = verdict_on(replace(corpus, queries=tuple(queries)))
    assert found.verdict == "unfit"
    assert "4 of 60 pages of members have a near-duplicate page of non-members" in found.reasons


def test_training_pages_of_non_members_and_members_without_any() -> None:
    rng = np.random.default_rng(6)
    corpus = drawn(60, rng)
    members, others = corpus.members(), corpus.non_members()
    training = [page_of(rng, f"t{number}_1", name.upper(), 2019) for number, name in enumerate(members[:20])]
    training += [page_of(rng, f"u{number}_1", f"{name}, Inc.", 2019) for number, name in enumerate(others[:3])]
    found = verdict_on(corpus, training)
    assert found.verdict == "unfit"
    assert found.reasons == ("3 of 30 non-members have training pages", "10 of 30 members have no training page")
    seen = verdict_on(corpus, [*training[:20], corpus.documents[0]])
    assert "pages of members with a near-duplicate among training pages: 1 of 60" in warnings_of(seen.found)


def test_one_company_on_both_sides() -> None:
    rng = np.random.default_rng(7)
    pages = [
        (page_of(rng, f"d{number}_1", name, 2019), SIDES[number % 2])
        for number, name in enumerate(("ACME Inc.", "Acme"))
    ]
    found = compare_units(corpus_of(pages), ())
    assert found.both_sides == ("ACME Inc.", "Acme")
    assert (found.trained_others, found.untrained_members) == ((), ())


def test_names_pages_and_words_are_masked() -> None:
    corpus = drawn(60, np.random.default_rng(0), years=(2019, 2020))
    renamed = {name: f"{name}, INC." if at == 1 else name for at, name in enumerate(corpus.providers)}
    queries = tuple(
        replace(query, document=replace(query.document, provider=renamed[query.document.provider]))
        if query.id.endswith("-1_1/total")
        else query
        for query in corpus.queries
    )
    labels = {renamed[name]: side for name, side in corpus.membership.items()} | dict(corpus.membership)
    found = verdict_on(replace(corpus, queries=queries, membership=labels))
    assert [one.same for one in found.found.units.spellings] == [True]
    masked, shown = (str(found.to_dict(Redactor("salt", reveal=reveal))) for reveal in (False, True))
    assert "INC." in shown
    assert not [name for name in (*renamed, "INC.") if name in masked]
    assert not [page.id for page in corpus.documents if page.id in masked]


def test_the_seed_decides() -> None:
    corpus = drawn(30, np.random.default_rng(8))
    one, other = (verdict_on(corpus, seed=9).to_dict(Redactor("x")) for _ in range(2))
    assert one == other


def test_without_membership() -> None:
    corpus = replace(drawn(10, np.random.default_rng(0)), membership={})
    found = fitness_of(corpus, PageLooks(), np.random.default_rng(0), Silent())
    assert (found.verdict, found.found.classes, found.found.duplicates) == ("cannot be decided", None, ())
    assert corpus.label(corpus.providers[0]) is Membership.UNKNOWN
