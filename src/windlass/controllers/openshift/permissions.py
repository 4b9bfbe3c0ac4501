"""Permissions: what several of OpenShift's controllers take."""

from windlass.kube.rights import READ, Rule

EVENTS = Rule("", ("events",), ("create", "patch"), "what was done, and what is wrong")
GATES = Rule(
    "config.openshift.io", ("featuregates", "infrastructures"), READ, "which gates are on, and on which platform"
)
