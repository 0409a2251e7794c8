-- One row: a finished evaluation with seed 004's columns, and its hit rate. faithfulness is claims.faithfulness, null without a judge, and
-- corrected_faithfulness is null without enough labels; the numbers of retrieval are at document level where nothing is known at chunk level.
-- order by: run_id DESC
SELECT
    n.id AS run_id,
    n.client_id,
    n.dataset_id,
    n.dataset_name,
    n.system_name,
    CASE WHEN n.mrr IS NULL THEN n.document_precision_at_k ELSE n.precision_at_k END AS precision_at_k,
    CASE WHEN n.mrr IS NULL THEN n.document_recall_at_k ELSE n.recall_at_k END AS recall_at_k,
    CASE WHEN n.mrr IS NULL THEN n.document_hit_rate_at_k ELSE n.hit_rate_at_k END AS hit_rate_at_k,
    CASE WHEN n.mrr IS NULL THEN n.document_mrr ELSE n.mrr END AS mrr,
    n.faithfulness,
    n.corrected_faithfulness,
    n.k,
    n.finished_at AS created_at
FROM (
    SELECT
        r.id,
        r.client_id,
        r.dataset_id,
        (SELECT d.name FROM evaluation_datasets d WHERE d.id = r.dataset_id) AS dataset_name,
        r.system_name,
        r.k,
        r.finished_at,
        (
            SELECT s.mean
            FROM metric_summaries s
            WHERE s.evaluation_id = r.id AND s.metric_id = 'claims.faithfulness'
        ) AS faithfulness,
        (
            SELECT s.corrected_mean
            FROM metric_summaries s
            WHERE s.evaluation_id = r.id AND s.metric_id = 'claims.faithfulness'
        ) AS corrected_faithfulness,
        (
            SELECT s.mean
            FROM metric_summaries s
            WHERE s.evaluation_id = r.id AND s.metric_id = 'retrieval.mrr'
        ) AS mrr,
        (
            SELECT s.mean
            FROM metric_summaries s
            WHERE s.evaluation_id = r.id AND s.metric_id = 'retrieval.document_mrr'
        ) AS document_mrr,
        (
            SELECT s.mean
            FROM metric_summaries s
            WHERE s.evaluation_id = r.id AND s.metric_id = REPLACE('retrieval.precision_at_#', '#', CAST(r.k AS CHAR(10)))
        ) AS precision_at_k,
        (
            SELECT s.mean
            FROM metric_summaries s
            WHERE s.evaluation_id = r.id AND s.metric_id = REPLACE('retrieval.document_precision_at_#', '#', CAST(r.k AS CHAR(10)))
        ) AS document_precision_at_k,
        (
            SELECT s.mean
            FROM metric_summaries s
            WHERE s.evaluation_id = r.id AND s.metric_id = REPLACE('retrieval.recall_at_#', '#', CAST(r.k AS CHAR(10)))
        ) AS recall_at_k,
        (
            SELECT s.mean
            FROM metric_summaries s
            WHERE s.evaluation_id = r.id AND s.metric_id = REPLACE('retrieval.document_recall_at_#', '#', CAST(r.k AS CHAR(10)))
        ) AS document_recall_at_k,
        (
            SELECT s.mean
            FROM metric_summaries s
            WHERE s.evaluation_id = r.id AND s.metric_id = REPLACE('retrieval.hit_rate_at_#', '#', CAST(r.k AS CHAR(10)))
        ) AS hit_rate_at_k,
        (
            SELECT s.mean
            FROM metric_summaries s
            WHERE s.evaluation_id = r.id AND s.metric_id = REPLACE('retrieval.document_hit_rate_at_#', '#', CAST(r.k AS CHAR(10)))
        ) AS document_hit_rate_at_k
    FROM evaluation_runs r
    WHERE r.status = 'complete'
) n
