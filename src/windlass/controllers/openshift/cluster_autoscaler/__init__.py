"""ClusterAutoscaler controller of OpenShift (autoscaling.openshift.io).

The spec becomes the flags of a Deployment, with Service, ServiceMonitor, PrometheusRule and NetworkPolicies. The
operator reports its state in the ClusterOperator `cluster-autoscaler`. See docs/openshift.md for the table of flags.
"""
