"""Starts the server:  PYTHON tests/gce_server  where PYTHON is what scripts/tools/gce-server prints."""

import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)

from gce_server.server import main  # noqa: E402

sys.exit(main())
