"""The independent check: what must hold whatever an autoscaler does, read off the API objects alone.

After every step: no pod on two nodes, no node over capacity, no group outside its bounds by our doing, no eviction
against a budget, no running pod lost by a scale-down. Each rule is a file, hears every change and keeps its own books;
`reading` has what they all need. Nothing here is shared with the engine, with the world's parts or with the plain
scheduler, so that a mistake in any of them shows.

Imitate `seats.py`.
"""
