"""EKS Anywhere controller: reconciles the worker node groups of a Cluster (anywhere.eks.amazonaws.com).

Each group becomes a MachineDeployment. Replicas of an autoscaled group are never written, and the Cluster's conditions
check only that they are within limits. See docs/worker-pools.md for differences from EKS Anywhere's own controller.
"""
