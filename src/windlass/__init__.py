"""windlass: a node autoscaler for Kubernetes on Cluster API that decides with one pure function and can say why.

Every room is a package with a law in its `__init__` docstring. Floors, top to bottom:
cli · simulator · autoscaler · kube | engine · errors | selectors. A floor knows only the floors below it.
"""
