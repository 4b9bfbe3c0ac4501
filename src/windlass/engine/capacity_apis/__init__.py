"""Capacity APIs: ProvisioningRequests, CapacityBuffers, and pods that controllers have not created yet.

Their pods are injected into the loop's fork of the snapshot, as rows like those of pending pods, and never reported
as pods.
"""
