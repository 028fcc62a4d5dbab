from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.context import Case
from pfl_audit.attacks.inversion.settings import Known
from pfl_audit.attacks.inversion.texts import given_for
from pfl_audit.attacks.inversion.word_text import solve
from pfl_audit.errors import AuditError, NotAuditableError
from pfl_audit.models.donut.gradients import DonutGradients
from pfl_audit.models.donut.tokenizer import EOS, MARKS
from pfl_audit.models.samples import IGNORED
from tests.attacks.inversion.gradient_fakes import FakeGradients
from tests.attacks.inversion.leaking import NAMES, case_of


def told(model: DonutGradients, case: Case, known: Known, *, recovers: bool = True) -> dict[str, Tensor]:
    (text,) = given_for(model, case, known, np.random.default_rng(0), recovers=recovers).texts
    return dict(text)


def marks(model: DonutGradients, ids: Tensor) -> Tensor:
    tokenizer = model.inputs.tokenizer
    return torch.isin(ids, torch.tensor([tokenizer.id(name) for name in (*MARKS, EOS)]))


def test_question_and_answer_are_read_from_the_gradient(leaking: DonutGradients, one_page: Case) -> None:
    found = told(leaking, Case(one_page.seen), "recovered")  # there is no truth to be looked at
    truth = one_page.truths[0].text
    assert {name: part.tolist() for name, part in found.items()} == {
        name: part.tolist() for name, part in truth.items()
    }


@pytest.mark.parametrize("known", [known for known in get_args(Known) if known not in ("recovered", "both")])
def test_what_is_not_known_is_replaced_and_the_rest_stays(
    leaking: DonutGradients, one_page: Case, known: Known
) -> None:
    truth, found = one_page.truths[0].text, told(leaking, one_page, known)
    ids, labels = found["decoder_input_ids"], found["labels"]
    own, scored = truth["decoder_input_ids"], truth["labels"]
    fixed = marks(leaking, own)
    answer = torch.arange(len(own)) > int((scored != IGNORED).nonzero()[0])
    stays = fixed | {"question": ~answer, "answer": answer}.get(known, torch.zeros_like(fixed))
    assert (ids[stays] == own[stays]).all()
    assert not marks(leaking, ids)[~fixed].any()
    assert (ids[~stays] != own[~stays]).any()
    assert ((labels == IGNORED) == (scored == IGNORED)).all()
    at = (labels[:-1] != IGNORED).nonzero()[:, 0]
    assert (labels[at] == ids[at + 1]).all()  # what is scored is what is read next
    assert labels[-1] == scored[-1]
    if known == "characters":
        decode = leaking.inputs.tokenizer.decode
        assert {len(decode([token]).strip()) for token in ids[~fixed].tolist()} == {1}


def test_who_is_told_both_has_both(leaking: DonutGradients) -> None:
    case = case_of(leaking, *NAMES[:2])
    found = given_for(leaking, case, "both", np.random.default_rng(0)).texts
    assert [text is truth.text for text, truth in zip(found, case.truths, strict=True)] == [True, True]


def test_a_method_that_reads_nothing_gets_chance(leaking: DonutGradients, one_page: Case) -> None:
    truth = one_page.truths[0].text["decoder_input_ids"]
    for known in ("recovered", "both"):
        found = told(leaking, one_page, known, recovers=False)["decoder_input_ids"]
        assert found.shape == truth.shape
        assert float((found == truth)[~marks(leaking, truth)].float().mean()) < 0.5


def test_where_nothing_can_be_read(leaking: DonutGradients, one_page: Case) -> None:
    batch = case_of(leaking, *NAMES[:2])
    with pytest.raises(NotAuditableError, match=r"cannot be separated .* Give them with --known both"):
        told(leaking, batch, "recovered")
    zero = {name: torch.zeros_like(part) for name, part in one_page.seen.gradient.items()}
    with pytest.raises(AuditError, match="holds nothing of"):
        told(leaking, Case(replace(one_page.seen, gradient=zero)), "recovered")
    with pytest.raises(NotAuditableError, match="are unknown"):
        told(leaking, Case(one_page.seen), "question")
    fake: DonutGradients = FakeGradients()  # type: ignore[assignment]
    with pytest.raises(NotAuditableError, match="neither a text decoder nor an encoder of words"):
        told(fake, one_page, "recovered")
    with pytest.raises(NotAuditableError, match="has no question and answer in one sequence"):
        told(fake, one_page, "none")
    with pytest.raises(NotAuditableError, match="no absolute positions"):
        solve(leaking, one_page.seen)
    fake.sees_page = False
    with pytest.raises(NotAuditableError, match="looks at no page") as caught:
        told(fake, one_page, "both")
    assert "analytic" not in str(caught.value)  # which needs an encoder of words
