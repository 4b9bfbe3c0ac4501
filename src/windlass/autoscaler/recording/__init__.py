"""Recording: everything that was decided on, step by step, in a file from which it can be decided again.

Lives here: the file and its format, the recorder that the live loop decides through, and reading both back. Never here:
a rule of the decision itself. Of the engine's values nothing is left out, so that a replay gives the same bytes.

    journal    a snapshot that notes what changes in it      values     facts, plans, settings and memory, plainly
    changes    those changes, spelled and made again         sequences  lists as what is new against the last one
    layout     a whole snapshot, rows and all                digests    what large values are held against
    files      frames in a file that is bounded in size      recorder   decides, and writes down
    reading    the observations again                        replay     decides again
"""
