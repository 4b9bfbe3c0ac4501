"""Cluster state: readiness, health, backoffs, scale requests, upcoming nodes and remediation."""
