"""Lattice controller: reconciles the worker pools of a LatticeCluster (lattice.io).

Each pool becomes a MachineDeployment: autoscaled if it has `min` and `max`, static otherwise. The controller also
deploys the autoscaler once a pool needs it. See docs/worker-pools.md.
"""
