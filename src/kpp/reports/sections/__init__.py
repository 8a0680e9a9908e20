"""The sections of the report, one file each; every one returns plain data."""
