"""Cluster API provider: MachineDeployments, MachineSets and MachinePools of a management cluster.

`provider` is the entry point. Groups are read by `scalable_resources`, `node_groups` and `node_template`, and changed
by `node_group_scaler`, `scale_client` and `deletion`.
"""
