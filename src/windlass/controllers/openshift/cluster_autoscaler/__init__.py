"""cluster_autoscaler: the ClusterAutoscaler, which says how the autoscaler is run.

Its spec becomes the command line of a Deployment; besides there are a Service, what Prometheus needs, and network
policies. The operator says in its ClusterOperator how it fares. `docs/openshift.md` has the table of flags.
"""

from windlass.controllers.openshift.cluster_autoscaler.controller import make

__all__ = ["make"]
