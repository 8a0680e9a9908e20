"""Settings for all tests."""

import os

# Tests run in several processes. OpenMP threads of one would wait, spinning, for cores that the
# others use, and make HistGradientBoosting a hundred times slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")
