"""Hosts, networks and faults on one machine, and the oracles that judge a run: what run_scenarios.py is made of.

requirements   what a machine must offer, and the reason to skip a test where it does not
network        hosts (network and PID namespaces), cables between them, partitions, loss, rate, delay
schedule       which fault happens when and to whom, from a seed, as a file
observe        what a run says of itself (`troupe status`, metrics.csv) and what /proc says of it, over time
oracles        what must hold whatever happens; each reads observations only
bad_peers      hostile clients for every listening socket
Python's standard library only.
"""
