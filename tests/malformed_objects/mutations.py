"""Ways to spoil what was right: parts of a value replaced, left out or doubled, and bytes cut, flipped or repeated."""

import copy
import random
from typing import Any

from hypothesis import strategies as st

Json = Any

ODD_TEXTS = (
    "", " ", "0", "-1", "1e400", "9" * 40, "0x10", "½", "١٢", "null", "true", "1Gi1", "1e-400", "--", "NaN", "infinity",
    "\u202eabc", "\ud7ff\ue000", "a\u0300" * 50, "\U0001f9ff", "a/b/c", "../../x", "=", ",,,", "a=b=c", "{}",
    "x" * 5000,
)  # fmt: skip
ODD_NUMBERS = (0, -1, 2**31, 2**63 - 1, 2**63, 2**64, 10**40, -(10**40), 1.5, 1e308, -0.0)
ODD = (*ODD_TEXTS, *ODD_NUMBERS, None, True, False)


def nest(depth: int, around: Json = 1) -> Json:
    """One thing within another, so many times."""
    for level in range(depth):
        around = [around] if level % 2 else {"a": around}
    return around


def leaf(chance: random.Random) -> Json:
    """Something that nobody expects."""
    kind = chance.randrange(8)
    if kind == 0:
        return nest(chance.choice((3, 30, 300)))
    if kind == 1:
        return [chance.choice(ODD) for _ in range(chance.randrange(4))]
    if kind == 2:
        return {str(chance.choice(ODD)): chance.choice(ODD) for _ in range(chance.randrange(4))}
    return chance.choice(ODD)


def bend(whole: Json, chance: random.Random, times: int = 1) -> Json:
    """The same but for some parts of it."""
    bent = copy.deepcopy(whole)
    for _ in range(times):
        bent = _bend_once(bent, chance)
    return bent


def _bend_once(whole: Json, chance: random.Random) -> Json:
    """One part replaced, left out or put in twice: as deep as chance goes."""
    if isinstance(whole, dict) and whole and chance.random() < 0.9:
        key = chance.choice(list(whole))
        match chance.randrange(12):
            case 0:
                del whole[key]
            case 1:
                whole[str(chance.choice(ODD))] = whole[key]
            case _:
                whole[key] = _bend_once(whole[key], chance)
        return whole
    if isinstance(whole, list) and whole and chance.random() < 0.9:
        place = chance.randrange(len(whole))
        if chance.random() < 0.2:
            whole.append(copy.deepcopy(whole[place]))
        else:
            whole[place] = _bend_once(whole[place], chance)
        return whole
    return leaf(chance)


def bend_bytes(whole: bytes, chance: random.Random) -> bytes:
    """Cut off, flipped, doubled, or with something else in between."""
    bent = bytearray(whole)
    for _ in range(chance.randrange(1, 4)):
        if not bent:
            return b""
        place, length = chance.randrange(len(bent)), chance.randrange(1, 64)
        match chance.randrange(5):
            case 0:
                del bent[place:]
            case 1:
                bent[place] ^= 1 << chance.randrange(8)
            case 2:
                del bent[place : place + length]
            case 3:
                bent[place:place] = bent[place : place + length] * chance.randrange(1, 20)
            case _:
                bent[place:place] = chance.randbytes(length)
    return bytes(bent)


seeds = st.integers(0, 2**32 - 1).map(random.Random)
"""What else is drawn follows from this."""
