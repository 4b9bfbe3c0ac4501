"""Recording: all inputs and results of decisions in a file from which they can be decided again.

Lives here: the file and its format, the recorder around the engine, and replay. Never here: a rule of a decision. All
of the engine's values are recorded, so a replay produces the same bytes.

    snapshot_journal   a snapshot that logs its changes, and the codec of changes and whole snapshots
    value_codec        facts, plans, settings and memory as plain values; sequences as differences
    recording_file     frames in a bounded file
    recorder           decides and records
    replay             reads the inputs back and decides again
"""
