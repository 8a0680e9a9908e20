"""The two colours of signs, everywhere: what pushes a score up is orange, what pushes it down blue.

Orange and blue are told apart with any colour vision, and differ in lightness. Reports have a light
and a dark page, and their style sheet says the same (a test compares); plots are drawn on
white; a notebook may be either, and takes a pair that stands out from both.
"""

from __future__ import annotations

# On a light ground, dark enough for text.
UP, DOWN = "#a8480a", "#0b5cad"
# On a dark one.
UP_ON_DARK, DOWN_ON_DARK = "#ffb070", "#7cb7ff"
# On either, for bars.
UP_ON_ANY, DOWN_ON_ANY = "#cc6010", "#3884d0"
