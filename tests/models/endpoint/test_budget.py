import random
import threading

import pytest

from pfl_audit.errors import UsageError
from pfl_audit.models.endpoint.budget import Budget, Limits, Load, Prices
from pfl_audit.models.endpoint.forecast import Forecast
from pfl_audit.models.endpoint.reply import Usage

LOAD = Load(expected=50, most=100, answer=20)


def spend(budget: Budget) -> None:
    for _ in range(10):
        budget.settle(budget.reserve(LOAD), Usage(90, 20))


def test_nothing_is_sent_before_a_ceiling_is_agreed() -> None:
    with pytest.raises(UsageError, match="limit of requests"):
        Budget(Prices()).reserve(LOAD)


def test_each_limit_holds_and_names_its_option() -> None:
    for limits, name in ((Limits(3), "requests"), (Limits(tokens=300), "tokens"), (Limits(cost=0.0003), "cost")):
        budget = Budget(Prices(1, 1), limits)
        with pytest.raises(UsageError, match=f"--endpoint-max-{name}"):
            spend(budget)
        assert budget.requests <= 3
        assert budget.sent + budget.answered <= (330 if name == "requests" else 300)


def test_many_threads_together_never_go_beyond_the_tokens() -> None:
    rng, budget, used = random.Random(0), Budget(Prices(), Limits(tokens=2000)), []

    def work() -> None:
        while True:
            try:
                held = budget.reserve(LOAD)
            except UsageError:
                return
            usage = Usage(rng.randint(1, 100), rng.randint(1, 20))
            used.append(usage.sent + usage.answered)
            budget.settle(held, usage)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert 2000 - 120 < sum(used) <= 2000  # no token that a request might need is left unused either


def test_a_request_waits_while_those_in_flight_may_use_what_is_left() -> None:
    budget, started = Budget(Prices(), Limits(tokens=250)), threading.Event()
    held = [budget.reserve(LOAD), budget.reserve(LOAD)]
    thread = threading.Thread(target=lambda: (budget.reserve(LOAD), started.set()))
    thread.start()
    assert not started.wait(0.1)
    budget.settle(held[0], Usage(5, 5))
    assert started.wait(5)
    thread.join()


def test_an_endpoint_that_counts_more_than_was_thought_possible_raises_the_bound() -> None:
    budget = Budget(Prices(), Limits(tokens=10_000))
    budget.settle(budget.reserve(LOAD), Usage(400, 20))
    assert budget.reserve(LOAD).sent >= 400


def test_several_requests_in_flight_raise_the_bound_as_one_does() -> None:
    budget = Budget(Prices(), Limits(tokens=10_000))
    for held in [budget.reserve(LOAD) for _ in range(4)]:
        budget.settle(held, Usage(200, 20))
    assert budget.reserve(LOAD).sent == 250


def test_longer_answers_than_were_asked_for_raise_the_bound_too() -> None:
    budget = Budget(Prices(), Limits(tokens=2_000))
    budget.settle(budget.reserve(LOAD), Usage(100, 1000))
    with pytest.raises(UsageError, match="limit of tokens"):
        budget.reserve(LOAD)


def test_an_estimate_follows_usage_and_covers_later_steps() -> None:
    forecast = Forecast(100, 50.0, 20, Prices(1e6, 2e6))
    assert forecast.rest() == (5000, 1000)
    assert forecast.ceiling(Limits(tokens=7)).tokens == 7
    forecast.begin([LOAD] * 60)
    for _ in range(30):
        forecast.note(LOAD, Usage(100, 4))
    assert forecast.step() == (60 * 100, 60 * 4)
    assert forecast.rest() == (70 * 100, 70 * 4)
    assert forecast.words(1, 1) == "1 tokens sent and 1 answered, cost 3.00"
