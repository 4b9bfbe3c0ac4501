"""Scale-up: which pods ask for nodes, which groups could give them, and how many nodes each group gets.

Not here: which option is best (`expanders`), placing pods of one shape (`placement`), limits on resources
(`resource_quotas.py`).

File to imitate: `balancing.py`: values in, values out, the rule in the docstring.
"""
