-- Run by the PostgreSQL image when its volume is new: a database for the history, and one for Dagster's own storage.
CREATE DATABASE rageval;
CREATE DATABASE dagster;
