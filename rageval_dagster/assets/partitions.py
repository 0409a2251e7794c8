"""The one partition of everything: a client; the sensor and the command line add new ones."""

import dagster as dg

CLIENTS_PARTITIONS = "clients"

clients_partitions = dg.DynamicPartitionsDefinition(name=CLIENTS_PARTITIONS)

OWNERS = ["team:rag-quality"]
