"""The partitions: a client, of nearly everything; an experiment. Sensors and the command line add new ones."""

import dagster as dg

CLIENTS_PARTITIONS = "rageval_clients"
"""Their name in the instance, which all its code locations share."""

EXPERIMENTS_PARTITIONS = "rageval_experiments"
"""Those of experiments, and of their configurations."""

clients_partitions = dg.DynamicPartitionsDefinition(name=CLIENTS_PARTITIONS)

OWNERS = ["team:rag-quality"]
