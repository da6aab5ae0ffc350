"""Runs in the interpreter that has Verifiers, never in ours: the standard library and ``verifiers`` alone.

It speaks JSON, a line for each message, over what were its standard input and output. :mod:`.serving` takes
requests, :mod:`.tasksets` finds and makes tasks, :mod:`.checks` and :mod:`.episodes` run one.
"""
