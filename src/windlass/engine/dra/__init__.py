"""Dynamic resource allocation (DRA): devices that drivers publish, and the ResourceClaims that hold them.

Here: pools as nodes see them, the inventory, the allocator, and the device table of a snapshot. Not here: which pods
fit which nodes (`predicates.dynamic_resources`), and the values (`model.dynamic_resources`).

A node's device set, the pools it sees and what is allocated are interned numbers: an allocation is computed once per
combination of them, not per node. 500 new nodes of one template cost one allocation.
"""
