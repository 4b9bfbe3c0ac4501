"""Capture: a scenario from a cluster that was observed, so that its workload can be simulated with other flags.

    cluster_history    what happened to groups, machines, nodes and pods, from observations or a recording; failures
    workload_history   the workloads of the pods
    scenario_writer    the scenario
    anonymizer         a scenario that can be shared

Not here: reading a cluster, and running a scenario.
"""
