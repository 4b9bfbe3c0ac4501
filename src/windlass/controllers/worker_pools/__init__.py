"""worker_pools: what EKS Anywhere and Lattice share: pools of workers that live with an autoscaler.

    sizes                 static or autoscaled: the one predicate, the one clamp
    annotations           the one codec of an autoscaler's bounds
    machine_deployments   a MachineDeployment as facts, whichever version it is read in
    manifest              a MachineDeployment as it should be, in either version
    applying              what has to be written to make one of the other, and how replicas change hands
    act                   the writing

Lives here: values and pure functions, but for `act`. Never here: what only one of the two operators says
or does.
"""
