"""How a controller stays alive: loop, work queue, leader election, health and metrics, shutdown.

Lives here: when something is done, by whom, and how it is seen from outside that it still is. Time is the clock port's
throughout, so that every timer can be tested in virtual time. Never here: what is done, or anything of one
controller. `workqueue.py` is the file to imitate.
"""
