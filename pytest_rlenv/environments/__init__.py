"""Where tasks come from: parse a spec, resolve it, pin it, bring it here."""
