"""End to end: `windlass autoscaler` as a process, beside the real control plane, Cluster API, scheduler and KWOK nodes.

All tests share one control plane and one autoscaler, which runs with the rights of cluster-autoscaler and reaches the
API server through a gateway. The gateway writes every call down, and can let the autoscaler die at one of them.

Each test has groups of its own, and pods that fit no others; what is said of one group (its timers too) is said by
annotations, so that one process serves all. Nothing waits a fixed time.
"""
