r"""A box's network: what of it may be reached, and the proxy that holds a list of allowed hosts.

A box with an allowlist has no network at all, but one door: a listening socket on its own loopback, made in
its network namespace and handed to us (how, is each sandbox's own affair). Behind the door, in our process,
is an HTTP proxy. So there is nothing to route around: no bridge, no gateway, no name server, no packet
filter, and nothing that outlives us.

Public:

- :class:`~pytest_rlenv.sandboxes.network.gate.Gate`\ ``(listener, policy)``: serves one box's door.
- :class:`~pytest_rlenv.sandboxes.network.policy.Policy` and
  :class:`~pytest_rlenv.sandboxes.network.hosts.HostList`: what passes it.
- :mod:`~pytest_rlenv.sandboxes.network.variables`: what tells programs in the box about it.
"""
