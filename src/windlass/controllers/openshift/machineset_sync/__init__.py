"""MachineSet sync controller: keeps the two MachineSets of one name equal, and migrates authority between them.

The cluster autoscaler scales MachineSets of Cluster API; its replicas win even where Machine API is authoritative
(`field_ownership`). See docs/openshift.md.
"""
