from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership, Query, as_boxes
from pfl_audit.documents.group_table import groups_line, with_groups
from pfl_audit.documents.groups import clients_coincide, join_groups
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.sides import join_sides
from pfl_audit.documents.units import DOCUMENT
from pfl_audit.documents.writers import write_jsonl
from pfl_audit.errors import AuditError, UsageError

LABELS = (Membership.MEMBER, Membership.NON_MEMBER)


def joined_slowly(units: list[str], stated: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """Groups are merged as long as two of them share a unit."""
    sets = [({unit}, set(stated.get(unit, {unit}))) for unit in units]
    while True:
        pair = next(
            ((a, b) for a in range(len(sets)) for b in range(a) if sets[a][1] & sets[b][1] or sets[a][0] & sets[b][0]),
            None,
        )
        if pair is None:
            return {unit: min(names) for unit in units for held, names in sets if unit in held}
        one, other = sets.pop(pair[0]), sets.pop(pair[1])
        sets.append((one[0] | other[0], one[1] | other[1]))


@pytest.mark.parametrize("seed", range(40))
def test_components_are_those_of_merging_groups_that_share_a_unit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    units = [f"unit {number}" for number in range(12)]
    names = [*(f"group {number}" for number in range(8)), "unit 3"]
    stated = {
        unit: frozenset(map(str, rng.choice(names, count, replace=False)))
        for unit in units
        if (count := int(rng.integers(0, 4 if seed % 2 else 2)))
    }
    assert join_groups(units, stated) == joined_slowly(units, stated)


def test_a_long_chain_of_groups_is_one() -> None:
    stated = {f"u{number}": (f"g{number}", f"g{number + 1}") for number in range(20_000)}
    assert set(join_groups(stated, stated).values()) == {"g0"}


def test_case_and_spaces_of_a_group_do_not_count() -> None:
    found = join_groups(["a", "b", "HOLDING", "c"], {"a": ["Holding"], "b": [" holding"]})
    assert found == {"a": " holding", "b": " holding", "HOLDING": " holding", "c": "c"}


def test_clients_coincide_with_classes_only_where_each_has_one_class_and_both_classes_have_clients() -> None:
    members = {"a": True, "b": True, "c": False, "d": False}
    drawn = {"a": ["0"], "b": ["0"], "c": ["1"], "d": ["1"]}
    assert clients_coincide(drawn, members)
    assert clients_coincide({**drawn, "e": ["0"]}, members), "units of unknown membership do not count"
    assert not clients_coincide({**drawn, "c": ["0"]}, members), "a client has both classes"
    assert not clients_coincide({"a": ["0"], "b": ["0"]}, members), "non-members have no client"
    assert not clients_coincide({"a": ["0"], "b": ["1"], "c": ["2"], "d": ["3"]}, members), "a client has one unit"
    assert not clients_coincide({}, members)


def corpus_of(groups: Mapping[str, str], clients: Mapping[str, int | None] | None = None) -> Corpus:
    """Companies of one page, members and non-members in turn."""
    pages = [
        Document(f"{name}_1", name, ("word", name), as_boxes([[0, 0, 1, 1]] * 2, 2), group=group)
        for name, group in groups.items()
    ]
    pages = [replace(page, client=(clients or {}).get(page.provider)) for page in pages]
    queries = tuple(Query(page.id, page, "Who?", (page.provider,), "provider_name") for page in pages)
    return Corpus(queries, {name: LABELS[at % 2] for at, name in enumerate(groups)}, "test")


def test_stated_groups_go_before_clients_and_alone_change_the_digest() -> None:
    names = ("a", "b", "c", "d")
    plain = corpus_of(dict.fromkeys(names, ""))
    clients = corpus_of(dict.fromkeys(names, ""), {"a": 0, "c": 0, "b": 1, "d": 1})
    stated = corpus_of({"a": "X", "b": "Y", "c": "", "d": "Y"}, {"a": 0, "c": 0, "b": 1, "d": 1})
    assert plain.groups == {name: name for name in names}
    assert clients.groups == {"a": "client 0", "c": "client 0", "b": "client 1", "d": "client 1"}
    assert stated.groups == {"a": "X", "b": "Y", "c": "c", "d": "Y"}
    assert plain.digest == clients.digest == "0b50ae3f7428a5c0f5b6d605ec09ea942896ce4cf499b5ae51efae2115c58bd2"
    assert stated.digest != plain.digest
    assert [groups_line(one) for one in (plain, clients, stated)] == [
        None,
        "classes and clients coincide, so that clients are the groups: 2, of 4 providers",
        "groups: 3, of 4 providers; 1 without a group, each its own",
    ]


def test_groups_are_written_and_read(tmp_path: Path) -> None:
    write_jsonl(corpus_of({"a": "X", "b": "", "c": "X"}), tmp_path)
    assert open_corpus(tmp_path).groups == {"a": "X", "b": "b", "c": "X"}


def test_documents_have_the_groups_of_their_pages() -> None:
    one, other = corpus_of({"a": "X", "b": ""}), corpus_of({"c": "X", "d": "Y"})
    assert join_sides(one, other, DOCUMENT).groups == {"a": "X", "b": "b", "c": "X", "d": "Y"}


def table(folder: Path, content: str) -> Path:
    path = folder / "groups.csv"
    path.write_text(content, encoding="utf-8")
    return path


def test_a_table_states_groups_beside_those_of_the_pages(tmp_path: Path) -> None:
    corpus = corpus_of({"Acme Ltd": "X", "b": "", "c": "", "d": ""})
    found = with_groups(corpus, table(tmp_path, "Unit;Group;note\nACME  ltd;Y;first\nb;Y;\n\nb;Z;\n"))
    assert found.groups == {"Acme Ltd": "X", "b": "X", "c": "c", "d": "d"}
    assert found.digest != corpus.digest
    assert found.where(lambda query: query.document.provider != "Acme Ltd").groups == {"b": "Y", "c": "c", "d": "d"}


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("company,group\na,X\n", "has no column 'unit'"),
        ("unit\na\n", "has no column 'group'"),
        ("unit,group\na,X\nb, \n", "row 3: group is empty"),
        ("unit,group\n,X\n", "row 2: unit is empty"),
        ("unit,group\na,X\nB Inc,X\nq,Y\n", "2 of 3 rows name no provider that is asked about, the first is row 3"),
        ("unit,group\n", "holds no row"),
        ("unit,group,group\na,X,Y\n", "two of one name"),
        ("unit,group\na,X,Y\n", "row 2: it has more cells than columns"),
        (f"unit,group\na,{'x' * 1001}\n", "row 2: group has more than 1,000 letters"),
    ],
)
def test_a_table_that_cannot_be_used_is_one_line_without_names(tmp_path: Path, content: str, error: str) -> None:
    with pytest.raises(AuditError, match=error) as raised:
        with_groups(corpus_of({"a": "", "b": ""}), table(tmp_path, content))
    assert "B Inc" not in raised.value.problem


def test_a_table_that_is_not_there_is_a_wrong_path(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        with_groups(corpus_of({"a": "", "b": ""}), tmp_path / "groups.csv")


def test_companies_of_training_pages_alone_are_not_asked_about(tmp_path: Path) -> None:
    corpus = corpus_of({"a": "", "b": ""})
    trained = replace(corpus.queries[1], document=replace(corpus.queries[1].document, split="blue_train"))
    with pytest.raises(AuditError, match="1 of 1 rows name no provider that is asked about"):
        with_groups(replace(corpus, queries=(corpus.queries[0], trained)), table(tmp_path, "unit,group\nb,X\n"))
