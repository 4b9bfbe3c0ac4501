"""The cluster as struct of arrays: tables of nodes and pods, counts, and one `Snapshot` that can be forked."""
