"""`python -m actions.run FOLDER`: the runner of one run."""

from __future__ import annotations

import sys
from pathlib import Path

from actions.run.process import main
from actions.run.site import Site

if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Site))
