"""Change rules and see whether a test notices: `python -m tests.mutation [--room NAME] [--only TEXT] [--piece K/N]`.

Exit code 0 if in every room more changes are noticed than `--least` asks for, and nothing in equivalent.yaml is out of
date.
"""

import argparse
import sys
import time

from tests.mutation import mutant_runner, mutation_report, mutation_sites, targets


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--room", choices=[room.name for room in targets.ROOMS], help="this one (default: all)")
    parser.add_argument("--only", default="", metavar="TEXT", help="changes with this text in their names")
    parser.add_argument(
        "--piece", type=_read_piece, default=(1, 1), metavar="K/N", help="the K-th of N equal parts of the changes"
    )
    parser.add_argument("--least", type=float, default=85.0, metavar="PERCENT", help="the least score of a room")
    arguments = parser.parse_args()
    number, pieces = arguments.piece
    is_whole = pieces == 1 and not arguments.only
    all_well = True
    for room in targets.ROOMS:
        if arguments.room in (None, room.name):
            changes = [change for path in room.paths() for change in mutation_sites.changes(path)]
            chosen = [change for change in changes if arguments.only in change.name][number - 1 :: pieces]
            account = _try(room, chosen)
            for line in account.lines(is_whole):
                print(line, flush=True)
            all_well = all_well and account.is_well(arguments.least, is_whole)
    return 0 if all_well else 1


def _read_piece(text: str) -> tuple[int, int]:
    number, _, pieces = text.partition("/")
    if not (number.isdecimal() and pieces.isdecimal() and 1 <= int(number) <= int(pieces)):
        raise argparse.ArgumentTypeError(f"found {text!r}, accepted is K/N with K from 1 to N, as in 2/8")
    return int(number), int(pieces)


def _try(room: targets.Room, changes: list[mutation_sites.Change]) -> mutation_report.Account:
    began_s = time.monotonic()
    account = mutation_report.Account(room.name, mutation_report.read_equivalent())
    trial = mutant_runner.Trying(changes, account.note)
    if code := mutant_runner.run_pytest([*room.tests], [trial]):
        raise SystemExit(code)
    for change in changes:
        if change.function is None or not trial.reached.does(change):
            account.note(change, mutant_runner.try_importing(change, trial.reached))
    account.took_s = time.monotonic() - began_s
    return account


if __name__ == "__main__":
    sys.exit(main())
