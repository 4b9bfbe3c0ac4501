"""Models of the API's objects, narrowed to the fields that windlass reads, one module per API group.

Here: field names. Never here: a default that the API server does not fill in, or a rule. `core` is the file to imitate.
"""
