"""The user's own expander: a server that is shown the options of a scale-up and says which it likes (`grpc`).

Lives here: the published protocol (`expander.proto`) and everything between a question of the engine and the bytes of
an answer. `wire` is protobuf, `objects` are Pods and Nodes in it, `messages` the call's own two, `http2` the call
without the waiting, `server` the waiting; `consulting` asks until nothing is left to ask. Never here: what an answer
is worth; `engine.expanders.outside` knows that.

Imitate `http2.py`: bytes in, bytes out, and no socket.
"""
