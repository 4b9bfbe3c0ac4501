"""openshift: autoscaling on OpenShift, whichever of its two APIs a MachineSet is run by.

OpenShift moves from its own Machine API to Cluster API. Meanwhile a MachineSet may be there twice, under one name: in
`openshift-machine-api`, and in `openshift-cluster-api`. One of the two is authoritative, the other mirrors it.

    names               what things are called: namespaces, annotations, managers, conditions
    apis                the two APIs: group, namespace, the prefix of its annotations
    authority           the two MachineSets of one name, and which of them holds
    capacity            what an empty MachineSet promises: OpenShift's old annotations in the autoscaler's words
    gates               which features OpenShift has turned on, and on which platform it runs
    machine_sets        MachineSets of both APIs, each followed as soon as it may be
    accelerators        the label by which GPUs are counted
    unkept              conditions that an older definition has no room for
    recording           events, which are lines of the log as well

    machine_autoscaler  MachineAutoscalers: bounds onto the MachineSet that holds
    machineset_sync     pairs: the two MachineSets of one name are kept equal, and authority moves between them
    cluster_autoscaler  the ClusterAutoscaler: a Deployment of `windlass autoscaler`, and all that goes with it

Controllers here are independent of each other, too: they share the modules above.
"""
