"""Verifiers: the tasks of a taskset, run by an interpreter of their own that has the package.

:mod:`.finding` lists a taskset's tasks, :mod:`.framework` runs one, :mod:`.process` is the interpreter as
seen from here and ``child/`` the program in it, :mod:`.outcome` makes a reward or an error of its answers.
"""
