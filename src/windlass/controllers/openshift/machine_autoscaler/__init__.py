"""MachineAutoscaler controller of OpenShift (autoscaling.openshift.io).

A MachineAutoscaler sets min and max size, owner and scale-from-zero capacity of a MachineSet, as annotations of the
authoritative MachineSet; machineset_sync copies them to the mirror. See docs/openshift.md.
"""
