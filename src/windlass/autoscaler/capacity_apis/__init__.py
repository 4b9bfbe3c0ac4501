"""Capacity APIs: ProvisioningRequests, CapacityBuffers and CapacityQuotas of autoscaling.x-k8s.io.

Informers, readers and status writers; the reconciling functions are in windlass.engine.
"""
