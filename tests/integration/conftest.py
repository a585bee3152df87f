import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cay_fixtures import *  # noqa: E402,F401,F403
