"""Dagster assets: what exists, one file a stage, in the order data flows."""

import warnings

import dagster as dg

# Checks with partitions_def are a preview of Dagster 1.13: known, pinned, and needed (one status per client).
warnings.filterwarnings("ignore", category=dg.PreviewWarning)
warnings.filterwarnings("ignore", category=dg.BetaWarning)
