"""ProvisioningRequests: capacity that is asked for as a whole, found or made as a whole, and kept for a while.

    age ──▶ pick the next ──▶ book what was found before ──▶ its turn? ──▶ check-capacity: is there room now?
                                                                      └──▶ atomic: room now, or one scale-up for all

Pods of requests do not exist: they are imagined in the loop's fork. What is to be remembered of a request stands in its
own conditions, so that bookings survive whoever made them; only how long to wait before the next try is memory.

Nothing here knows the API; `docket.Docket` holds the requests as one loop changes them, and says what to write.
"""
