"""Cluster API provider: MachineDeployments, MachineSets and MachinePools of a management cluster.

`provider` is the entry point. Groups are read by `scalable_resources`, `node_groups` and `scale_from_zero`, and
changed by `node_group_scaler`, `scale_client` and `delete_annotations`.
"""
