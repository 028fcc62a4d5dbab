"""Plans of audits that are not run."""

import pytest

from pfl_audit.core import runner
from pfl_audit.core.plan import AuditPlan
from pfl_audit.errors import AuditError


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[AuditPlan]:
    """Plans of the audits that would have run."""
    seen: list[AuditPlan] = []

    def record(plan: AuditPlan, *_: object) -> None:
        seen.append(plan)
        raise AuditError("not run")

    monkeypatch.setattr(runner, "run_audit", record)
    return seen
