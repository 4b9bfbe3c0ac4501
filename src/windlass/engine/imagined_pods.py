"""Imagined pods: those of capacity buffers, ProvisioningRequests and controllers, which do not exist.

How many there are is a number in an object that anyone may have written; each is a row of the snapshot.
"""

MAX_PODS = 150_000
"""As many pods as Kubernetes supports in one cluster: no more are imagined of one source."""
