"""The embedded API server by itself: what contracts with a real one cannot show, or not so fast."""
