"""kube-scheduler's filters, one plugin per module under the plugin's own name; `registry` has their order.

Lives here: for each filter its name, a mask over all nodes for one shape, and the reasons for one node. Never here: one
filter that imports another, a loop over nodes where an array would do, text made before it is read.
"""
