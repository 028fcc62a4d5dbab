import numpy as np
import pytest

from pfl_audit.documents.keys import NAMES, draw_question, key_of_question, templates


@pytest.mark.parametrize("key", NAMES)
def test_every_key_has_twenty_templates_and_is_told_by_each(key: str) -> None:
    questions = templates(key)
    assert len(set(questions)) >= 20
    assert {key_of_question(question) for question in questions} == {key}


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("Can you inform me of the vendor's name?", "provider_name"),
        ("What is the provider of this document?", "provider_name"),
        ("What name is associated with the vendor?", "provider_name"),
        ("Can you provide the code associated with the agency mentioned?", "provider_name"),
        ("Which e-mail does the supplier give?", "provider_email"),
        ("What is the VAT ID of the seller?", "tax_number"),
        ("What month is attributed to the invoice?", "other"),
        ("", "other"),
    ],
)
def test_other_wordings(question: str, key: str) -> None:
    assert key_of_question(question) == key


def test_questions_are_drawn_by_the_generator_alone() -> None:
    drawn = [draw_question("tax_number", np.random.default_rng(seed)) for seed in range(200)]
    assert drawn == [draw_question("tax_number", np.random.default_rng(seed)) for seed in range(200)]
    assert len(set(drawn)) > 40
