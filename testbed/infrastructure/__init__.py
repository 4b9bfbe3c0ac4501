"""A fake infrastructure provider for Cluster API: its machines are KWOK nodes, and do what they are told.

A process of its own (`python -m testbed.infrastructure KUBECONFIG`) that follows Cluster API's v1beta2 contract: what a
real provider answers, it answers too. How well its machines fare is said by annotations, see `knobs`; they can be
given and taken away at any time, to a whole group or to one machine.

Lives here: watching, and one file for each kind of object that is looked after. Never here: anything of windlass, so
that what is tested on it cannot agree with it by sharing its mistakes. Imitate `clusters` for a new kind.
"""
