"""Consulting: deciding until nothing is left to ask.

decide ─▶ a question? ─▶ ask ─▶ the answer is part of the observation ─▶ decide
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from windlass import clock
from windlass.engine.decide import Decision
from windlass.engine.expanders.outside import Opinion, Question
from windlass.engine.observation import Observation


async def consult(
    seen: Observation,
    decide: Callable[[Observation], Awaitable[Decision]],
    ask: Callable[[Question], Awaitable[Opinion]] | None,
    time: clock.Clock,
    within_s: float,
) -> tuple[Observation, Decision]:
    """What is decided with all the answers, and the observation with them in it.

    Where there is nobody to `ask`, it is decided without. A scale-up in several rounds asks several times; after
    `within_s` nobody is asked any more, so that a slow server does not hold the loop for minutes.
    """
    began_s = time.monotonic_s()
    decision = await decide(seen)
    while ask is not None and decision.question is not None:
        if time.monotonic_s() - began_s < within_s:
            opinion = await ask(decision.question)
        else:
            opinion = Opinion(decision.question.about, failure=f"questions took {within_s:g} s; no time for more")
        seen = replace(seen, opinions=(*seen.opinions, opinion))
        decision = await decide(seen)
    return seen, decision
