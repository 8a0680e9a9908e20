"""Settings for all tests."""

import os

# Tests run in several processes. OpenMP threads of one would wait, spinning, for cores that the
# others use, and make HistGradientBoosting a hundred times slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings

# In CI the same examples every time: a chance find there would stop an unrelated change.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
