"""Devices: what drivers offer on nodes, and which claims hold them (dynamic resource allocation).

Lives here: slices, classes and claims as values (`model`), what of the devices is taken (`in_use`), the pools that a
node sees (`pools`), the search for devices that satisfy claims (`allocator`), and the table that a snapshot keeps of
all of it (`table`). Never here: which pods fit where, that is the filter's to say (`predicates.dynamic_resources`).

What makes it fast: a node's devices and what is taken of them are values, numbered once. Whether a claim can be had
is asked once for each pair of such numbers, not for each node; 500 new nodes of one template are one question.

Imitate `in_use`.
"""
