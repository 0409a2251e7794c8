"""The evaluation job: the whole chain for one client."""

import dagster as dg

from rageval_dagster.assets.partitions import clients_partitions

EVALUATION_JOB = "evaluation"

evaluation_job = dg.define_asset_job(
    EVALUATION_JOB,
    selection=dg.AssetSelection.groups("corpus", "benchmark", "evaluation", "history").materializable(),
    partitions_def=clients_partitions,
    description="Scans a client's documents, renews its benchmark where due, evaluates and scores its RAG system.",
)
