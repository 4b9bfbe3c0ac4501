"""Values of the engine: facts, observation parts, plan, memory, decision record, settings. Imports no algorithm."""
