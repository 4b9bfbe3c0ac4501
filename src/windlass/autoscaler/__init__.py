"""The live loop: observe · decide · act · report.

Lives here: what turns API objects into the engine's facts (`observe/`). Never here: a rule of the decision itself.
"""
