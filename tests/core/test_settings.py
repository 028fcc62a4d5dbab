"""Settings are validated before anything is opened."""

from math import inf

import pytest

from pfl_audit.core.attack import ATTACKS
from pfl_audit.core.settings import read_settings
from pfl_audit.core.subject import SUBJECTS
from pfl_audit.errors import UsageError


def test_a_number_that_json_lacks_is_no_setting() -> None:
    """The settings of a run are written down before it begins."""
    with pytest.raises(UsageError, match="'endpoint_max_cost' of questions is wrong: Input should be a finite number"):
        read_settings(SUBJECTS.installed()["questions"].Inputs, {"endpoint_max_cost": inf}, "questions")
    with pytest.raises(UsageError, match="'alpha_txt' of inversion is wrong: Input should be a finite number"):
        read_settings(ATTACKS.installed()["inversion"].Settings, {"alpha_txt": inf}, "inversion")
