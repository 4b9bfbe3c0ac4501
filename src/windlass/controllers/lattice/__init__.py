"""Lattice controller: reconciles the worker pools of LatticeClusters (lattice.io; adopted: lattice.dev).

A pool with `min` and `max` is autoscaled, any other static. The controller also deploys the autoscaler once a pool
needs it, unless Lattice has deployed one. See docs/worker-pools.md.
"""
