"""Days on which everything goes wrong, drawn from seeds and played in virtual time.

`drawing` makes a day out of a seed: a small cluster, its work, and faults of all kinds until the evening. `living`
plays it with the real autoscaler, whose process is killed now and then, in the `weather` between it and its API
server. `judging` says what must hold all day, and what must hold once the night was calm.

    python -m tests.chaos --days 1000 --jobs 2 every seed from 0 on, whatever came of the others
    python -m tests.chaos --seed 4711          the one that failed, with all that happened
"""
