"""The padding report by its old name: `python tools/check_padding_mm.py ...` is `shardkit padding --compat ...`."""

from __future__ import annotations

import sys

from shardkit.cli import main

if __name__ == "__main__":
    main(["padding", "--compat", *sys.argv[1:]])
