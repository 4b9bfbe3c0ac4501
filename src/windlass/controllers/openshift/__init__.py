"""OpenShift controllers: autoscaling of MachineSets in Machine API and Cluster API.

OpenShift is migrating from its Machine API to Cluster API. A MachineSet may exist in both, under one name, in
`openshift-machine-api` and `openshift-cluster-api`; one of the two is authoritative, the other mirrors it.

    machine_apis        both APIs, authority, feature gates, capacity annotations: shared by the controllers
    machine_autoscaler  MachineAutoscalers: min and max size onto the authoritative MachineSet
    machineset_sync     keeps both MachineSets of one name equal, and migrates authority
    cluster_autoscaler  the ClusterAutoscaler: deploys `windlass autoscaler` and what belongs to it
"""
