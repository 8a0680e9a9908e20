"""Settings for all tests."""

import os

# Tests run in several processes. OpenMP threads of one would wait, spinning, for cores that the
# others use, and make HistGradientBoosting a hundred times slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings

# No example has a deadline: no test depends on the speed of the machine. In CI the same examples
# every time, and fewer: a chance find there would stop an unrelated change.
settings.register_profile("anywhere", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("ci" if os.environ.get("CI") else "anywhere")
