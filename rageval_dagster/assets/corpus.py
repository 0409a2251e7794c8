"""Corpus assets: the document store as Dagster observes it, and the version of each client's corpus."""

import dagster as dg

from rageval_dagster.assets.partitions import clients_partitions
from rageval_dagster.assets.step import Step, client_asset
from rageval_dagster.resources import DocumentStore, EvaluationPlan, HistoryDatabase, RunSettings
from rageval_dagster.resources.textless import without_texts


@dg.observable_source_asset(group_name="corpus", tags={"dagster/kind/chroma": ""}, partitions_def=clients_partitions)
@without_texts
def document_store(rageval_store: DocumentStore, rageval_database: HistoryDatabase) -> dg.DataVersionsByPartition:
    """The chunks of every client in Chroma. They belong to the user: nothing here is ever written."""
    from rageval_dagster.corpus.names import partition_key
    from rageval_dagster.corpus.watching import watched

    documents = rageval_store.open()
    probes = documents.iter_probes(watched(rageval_database.open(), documents.clients()))
    return dg.DataVersionsByPartition({partition_key(client_id): probe for client_id, probe in probes})


@client_asset("corpus", "corpus_chunks", deps=[document_store], output_required=False)
def corpus_version(
    step: Step, store: DocumentStore, plan: EvaluationPlan, settings: RunSettings
) -> dg.MaterializeResult | None:
    """The version of a client's corpus, from one streamed scan of its chunks; ends the run where nothing changed."""
    from rageval_dagster.evaluation.changes import scan_client
    from rageval_dagster.evaluation.request import check_systems
    from rageval_dagster.storage.evaluations import evaluations_of_trigger

    own = settings.read()
    check_systems(step.db, own, step.client_id, plan.systems)  # before anything is spent
    state = scan_client(step.db, store.open(), step.client_id, own.system, step.progress("chunks scanned"))
    step.context.log_event(
        dg.AssetObservation(
            document_store.key,
            partition=step.context.partition_key,
            metadata={"chunks": state.scan.chunk_count, "documents": state.scan.document_count},
            tags={"dagster/data_version": state.data_version},
        )
    )
    # An attempt before this one may have been killed after the verdict: its checks are still to come.
    begun = evaluations_of_trigger(step.db, step.client_id, plan.request(step.client_id).trigger)
    if plan.only_if_changed and state.evaluated and not begun:
        step.context.log.info("this state of the corpus was evaluated before: nothing to do")
        return None
    return dg.MaterializeResult(metadata=state.metadata(), data_version=dg.DataVersion(state.data_version))
