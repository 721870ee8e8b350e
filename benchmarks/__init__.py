"""Benchmarks against the peers: `python -m benchmarks NAME [--short] [--json] [--model PATH] [--url URL]`.

Every script prints a table, writes its raw JSON and a plot under benchmarks/results/, and fails when a figure is above
the physical limit. docs/benchmarks.md is made from the JSON.
"""
