"""Scaling up: how many nodes a group may get, and who shares them.

Lives here: which groups are alike, how new nodes are shared among them, and what quotas leave. Never here: which group
is chosen (`expanders/` knows), how many nodes pods need (`estimator/` knows), the API's spelling.

Imitate `balancing.py`: values in, values out, the law in the docstring.
"""
