"""Cluster state: readiness, health, scale requests, upcoming nodes and remediation."""
