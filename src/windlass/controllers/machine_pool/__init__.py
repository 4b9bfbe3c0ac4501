"""MachinePool controller of Cluster API (cluster.x-k8s.io).

A MachinePool stands for instances that an infrastructure provider manages as one. The controller copies provider IDs
and bootstrap data, matches Nodes, counts replicas, creates Machines where the provider has infrastructure machines, and
deletes Nodes whose instances are gone. See docs/machine-pool.md for differences from Cluster API's own controller.
"""
