from pathlib import Path

import pytest

from pfl_audit.documents.keys import NAMES, templates
from pfl_audit.errors import AuditError
from pfl_audit.importing.questions import default_questions, read_questions


def test_the_defaults_are_those_of_the_package_and_survive_the_file(tmp_path: Path) -> None:
    (tmp_path / "q.toml").write_text(default_questions().to_toml(), encoding="utf-8")
    found = read_questions(tmp_path / "q.toml")
    assert found == default_questions()
    assert all(found.of(key) == templates(key) for key in NAMES)


def test_an_edited_file_asks_in_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "q.toml").write_text('frames = ["Was ist {}?"]\n[names]\ntotal_amount = ["der Betrag"]\n')
    found = read_questions(tmp_path / "q.toml")
    assert found.draw("total_amount", "a", 0) == "Was ist der Betrag?"
    assert found.of("menu.net_weight") == ("Was ist the menu net weight?",)


def test_the_question_of_a_page_does_not_depend_on_others() -> None:
    drawn = {default_questions().draw("total_amount", f"p{number}", 0) for number in range(40)}
    assert len(drawn) > 10
    assert default_questions().draw("total_amount", "p1", 0) == default_questions().draw("total_amount", "p1", 0)


@pytest.mark.parametrize(
    "content",
    ["frames = 3", "frames = []", 'frames = ["no place"]', 'frames = ["{} {}"]', "frame = 1", "names = 3",
     "[names]\na = 3", "[names]\na = []", f'[names]\na = ["{"x" * 3000}"]', "[",
     "a = " + "[" * 9999, "a = " + "9" * 5000, 'frames = ["{}\\u0007"]'],
)  # fmt: skip
def test_a_bad_file_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "q.toml").write_text(content)
    with pytest.raises(AuditError, match=r"q\.toml"):
        read_questions(tmp_path / "q.toml")
