"""Tests of the bounds; a package, so that its name is not taken for that of a benchmark."""
