"""Steps of the loop (`loop.STEPS`): each reads earlier findings in the LoopState and writes its own fields there.

Steps order and record; the algorithms that they call live in `cluster_state`, `scale_up`, `scale_down`, `actuation`
and `capacity_apis`, and know no LoopState. File to imitate: `scale_up.py`.
"""
