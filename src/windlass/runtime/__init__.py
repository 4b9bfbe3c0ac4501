"""Process runtime: loop, work queue, leader election, health, HTTP server, shutdown.

All timers use the clock port, so that tests run in virtual time. Nothing here depends on a particular controller.
"""
