"""The benchmark suite: data sets x methods x seeds, resumable, with statistics and pages."""
