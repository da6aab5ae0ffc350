"""Where tasks come from: parse a spec, resolve it, pin it, bring it here.

:mod:`.resolve` is the way in. Behind it: :mod:`.spec` reads the user's text, :mod:`.local` and :mod:`.hub`
find the tasks by the one rule of :mod:`.discovery`, :mod:`.hub_fetch` brings them here as real files.
"""
