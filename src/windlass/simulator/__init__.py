"""A cluster without a cluster.

Lives here: a plain scheduler that reads API objects and shares no rule with the engine, so that the two can disagree.
Never here: arrays, caches or anything clever; the simulator is the readable second opinion.
"""
