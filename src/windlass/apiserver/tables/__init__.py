"""The types of the built-in kinds of Kubernetes 1.36, as data: one type on a line, continued where indented.

Name = field:type field:type …      a leading `!` makes the struct atomic

s string · b bool · i int32 · l int64 · f float · q quantity · x int or string · t time · m time with
microseconds · d duration · y bytes · any anything · Name or group.Name a struct (`~` makes it granular)
[]T atomic list · [=]T set · [key,…]T list by keys · {}T map · {!}T atomic map
*T absent unless given · T? left out when empty · T always written, empty or not · =word what a key defaults to
"""
