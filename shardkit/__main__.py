"""`python -m shardkit`."""

from shardkit.cli import main

if __name__ == "__main__":
    main()
