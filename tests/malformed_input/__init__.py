"""Malformed input: a live autoscaler behind a real watch, fed with malformed objects of every kind that it follows.

    python -m tests.malformed_input --objects 20000 --seed 1

Three processes over real HTTP: `windlass apiserver`, `windlass autoscaler`, and this one, which holds a proxy between
the two and the controllers that the cluster needs. Objects that an API server admits are created on it; all others are
injected by the proxy into the autoscaler's watches.

    objects    one well-formed object of every kind, and where it is watched
    malform    ways to make it malformed: what an API server admits, and what it does not
    proxy      passes requests on, injects objects into watches, records writes
    cluster    the cluster behind it: node groups, machines, pods, and the controllers that act on them
    checks     what must hold throughout: health, lease, loops, nodes with running pods
    harness    one run
    shrink     from a failing batch to the fewest objects that still fail
"""
