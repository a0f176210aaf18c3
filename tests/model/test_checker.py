"""The checker itself: it finds the nearest fault, all states, and where there is no way on."""

from __future__ import annotations

import pytest

from tests.model.checker import TooMany, check

SIZES = {"three litres": 3, "five litres": 5}


def pours(jugs):
    """Two jugs of three and five litres at a well: fill one, empty one, pour one into the other."""
    for each, (name, size) in enumerate(SIZES.items()):
        yield f"fill {name}", (*jugs[:each], size, *jugs[each + 1 :])
        yield f"empty {name}", (*jugs[:each], 0, *jugs[each + 1 :])
    small, large = jugs
    poured, back = min(small, 5 - large), min(large, 3 - small)
    yield "pour into five litres", (small - poured, large + poured)
    yield "pour into three litres", (small + back, large - back)


def test_the_trace_is_the_shortest():
    """Four litres take six steps, as everybody knows."""
    found = check((0, 0), pours, {"nobody has four litres": lambda jugs: 4 not in jugs}, most=100)
    assert found.broken == "nobody has four litres"
    assert found.trace == (
        "fill five litres",
        "pour into three litres",
        "empty three litres",
        "pour into three litres",
        "fill five litres",
        "pour into three litres",
    )


def test_every_state_is_visited_where_nothing_is_broken():
    """Two jugs can hold sixteen pairs of amounts, one of them at least full or empty."""
    found = check((0, 0), pours, {"no jug runs over": lambda jugs: jugs <= (3, 5)}, most=100)
    assert (found.broken, found.trace, found.states) == (None, (), 16)


def test_a_model_that_is_larger_than_was_said_is_not_called_checked():
    """An answer about a part would be no answer."""
    with pytest.raises(TooMany):
        check((0, 0), pours, {}, most=15)


def test_states_that_are_alike_are_visited_once():
    """Where only the sum counts, six states stand for all."""
    found = check((0, 0), pours, {}, most=100, alike=sum)
    assert found.states < 16


def test_a_state_without_a_way_on_is_found():
    """A coin that is spent stays spent."""

    def spends(coins):
        yield from [("spend", coins - 1)] * (coins > 0)

    found = check(2, spends, {}, most=10)
    assert found.stuck(spends, lambda coins: coins > 0, lambda coins: coins) == ("spend", "spend")
    assert found.stuck(spends, lambda coins: coins == 0, lambda coins: coins) is None
