"""The one partition of everything: a client; the sensor and the command line add new ones."""

import dagster as dg

CLIENTS_PARTITIONS = "rageval_clients"
"""Their name in the instance, which all its code locations share."""

clients_partitions = dg.DynamicPartitionsDefinition(name=CLIENTS_PARTITIONS)

OWNERS = ["team:rag-quality"]
