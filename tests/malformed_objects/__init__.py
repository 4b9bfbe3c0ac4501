"""What comes from outside, bent in every way: objects, annotations, flags, files, answers, requests.

Whatever it is, it is read, or refused with an error of ours that says where; never a crash, a hang, or memory without
end. `bending` draws what is wrong; each test file has one door through which it comes in. A fixed share of examples is
played in `make test`; `make long KIND=malformed-objects` plays many more, other ones each time.
"""
