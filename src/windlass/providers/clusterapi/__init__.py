"""Cluster API provider: MachineDeployments, MachineSets and MachinePools of a management cluster.

How groups are found and read (`scalable_resources`, `node_groups`, `node_template`), how they are changed
(`node_group_scaler`, `scale_client`, `deletion`), and what keeps both current (`provider`, the file to begin with).
Never here: a decision.
"""
