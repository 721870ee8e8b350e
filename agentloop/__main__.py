"""`python -m agentloop` is the `agentloop` command."""

from .cli import main

__all__: list[str] = []

if __name__ == "__main__":
    raise SystemExit(main())
