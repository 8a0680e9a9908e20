"""The tables of the paper: published, reproduced, and where they differ."""
