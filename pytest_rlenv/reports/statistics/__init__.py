"""The statistics of reports, in the standard library alone: intervals, pass@k, and two runs compared."""
