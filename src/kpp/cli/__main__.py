"""``python -m kpp.cli``."""

import sys

from kpp.cli import main

if __name__ == "__main__":
    sys.exit(main())
