"""The papers' choices in the place of ours: one mechanism, and what is said of it."""

from typing import Annotated, Literal

import pytest
from pydantic import Field

from pfl_audit.core.attack import ATTACKS
from pfl_audit.core.settings import PaperValue, Settings, label_of, paper_values, read_settings, with_published


class Some(Settings):
    """Settings of no attack."""

    raw: Annotated[bool, PaperValue(True, "section 1")] = Field(default=False, description="Raw features.")
    kind: Annotated[Literal["ours", "theirs"], PaperValue("theirs", "section 2")] = Field(
        default="ours", description="Kind."
    )
    rate: Annotated[float | None, PaperValue(1 / 3, "section 3")] = Field(default=None, gt=0, description="Rate.")
    seeds: int = Field(default=5, description="Seeds.")
    value: str = Field(default="", description="A text of a document.")


class Ours(Settings):
    """Settings without a paper."""

    seeds: int = Field(default=5, description="Seeds.")


def label(**stated: object) -> str | None:
    return label_of(read_settings(Some, with_published(Some, stated), "some"), stated)


def test_the_papers_values_are_taken_and_named() -> None:
    assert with_published(Some, {}) == {"raw": True, "kind": "theirs", "rate": 1 / 3}
    assert label() == "settings as published: raw = true, kind = theirs, rate = 0.3333"


def test_what_the_user_states_wins_and_is_named() -> None:
    stated = {"raw": False, "seeds": 9, "kind": "theirs"}
    assert with_published(Some, stated) == {**stated, "rate": 1 / 3}
    assert label(**stated) == (
        "settings as published: kind = theirs, rate = 0.3333; stated by the user instead: raw = false, seeds = 9"
    )
    assert label(seeds=5) == label()  # the default, which is the paper's where the field names no other value


def test_no_text_of_a_document_is_said() -> None:
    said = label(value="Acme")
    assert said is not None
    assert said.endswith("stated by the user instead: value")


def test_an_attack_without_a_paper_has_no_label() -> None:
    assert label_of(Ours(seeds=3), {"seeds": 3}) is None


@pytest.mark.parametrize("name", list(ATTACKS.installed()))
def test_values_of_papers_are_valid_differ_from_ours_and_name_their_source(name: str) -> None:
    model = ATTACKS.installed()[name].Settings
    settings = read_settings(model, with_published(model, {}), name)
    for field, paper in paper_values(model).items():
        assert getattr(settings, field) == paper.value != model.model_fields[field].get_default()
        assert paper.source


def test_the_attacks_of_the_papers_state_them() -> None:
    attacks = ATTACKS.installed()
    stated = {name for name, attack in attacks.items() if paper_values(attack.Settings)}
    assert {"membership", "reconstruction", "inversion"} <= stated
    assert paper_values(attacks["membership"].Settings)["kmeans"].value == "raw"
    assert paper_values(attacks["inversion"].Settings)["init"].value == "noise"
