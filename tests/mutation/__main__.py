"""Change rules and see whether a test notices: `python -m tests.mutation [--room NAME] [--only TEXT] [--piece K/N]`.

Exit code 0 if in every room more changes are noticed than `--least` asks for, and nothing in equivalent.yaml is out of
date.
"""

import argparse
import sys
import time

from tests.mutation import account, places, rooms, trying


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--room", choices=[room.name for room in rooms.ROOMS], help="this one (default: all)")
    parser.add_argument("--only", default="", metavar="TEXT", help="changes with this text in their names")
    parser.add_argument(
        "--piece", type=_read_piece, default=(1, 1), metavar="K/N", help="the K-th of N equal parts of the changes"
    )
    parser.add_argument("--least", type=float, default=85.0, metavar="PERCENT", help="the least score of a room")
    arguments = parser.parse_args()
    number, pieces = arguments.piece
    is_whole = pieces == 1 and not arguments.only
    all_well = True
    for room in rooms.ROOMS:
        if arguments.room in (None, room.name):
            found = [change for path in room.paths() for change in places.changes(path)]
            chosen = [change for change in found if arguments.only in change.name][number - 1 :: pieces]
            told = _try(room, chosen)
            for line in told.lines(is_whole):
                print(line, flush=True)
            all_well = all_well and told.is_well(arguments.least, is_whole)
    return 0 if all_well else 1


def _read_piece(text: str) -> tuple[int, int]:
    number, _, pieces = text.partition("/")
    if not (number.isdecimal() and pieces.isdecimal() and 1 <= int(number) <= int(pieces)):
        raise argparse.ArgumentTypeError(f"found {text!r}, accepted is K/N with K from 1 to N, as in 2/8")
    return int(number), int(pieces)


def _try(room: rooms.Room, changes: list[places.Change]) -> account.Account:
    began_s = time.monotonic()
    told = account.Account(room.name, account.read_equivalent())
    trial = trying.Trying(changes, told.note)
    if code := trying.run_pytest([*room.tests], [trial]):
        raise SystemExit(code)
    for change in changes:
        if change.function is None or not trial.reached.does(change):
            told.note(change, trying.try_importing(change, trial.reached))
    told.took_s = time.monotonic() - began_s
    return told


if __name__ == "__main__":
    sys.exit(main())
