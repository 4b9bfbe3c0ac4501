"""A cluster without a cluster.

Lives here: `scheduler`, a plain scheduler that reads API objects and shares no rule with the engine, so that the two
can disagree; `world`, a cluster that breathes around it in virtual time; `scenario` and `trace`, what happens in it;
`checks`, what must hold whatever an autoscaler does; `measure`, what came of it. `simulation` puts one run together,
`autoscaling` has the real autoscaler play in it. Never here: a rule shared with the engine, a wall clock, or the real
network.
"""
