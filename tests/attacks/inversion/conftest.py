from pathlib import Path

import pytest

from pfl_audit.audit.gradient_case import Case
from pfl_audit.models.donut.gradients import DonutGradients
from tests.attacks.inversion.leaking import NAMES, case_of, save_leaking


@pytest.fixture(scope="session")
def leaking_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_leaking(tmp_path_factory.mktemp("leaking") / "donut")


@pytest.fixture(scope="session")
def leaking(leaking_folder: Path) -> DonutGradients:
    return DonutGradients(leaking_folder)


@pytest.fixture(scope="session")
def one_page(leaking: DonutGradients) -> Case:
    return case_of(leaking, NAMES[0])
