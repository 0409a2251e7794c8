-- One row: a finished evaluation with seed 004's columns, and its hit rate. faithfulness is claims.faithfulness, null without a judge, and
-- corrected_faithfulness is null without enough labels; the numbers of retrieval are at document level where nothing is known at chunk level.
-- order by: run_id DESC
WITH numbers AS (
    SELECT
        r.id,
        r.client_id,
        r.dataset_id,
        r.system_name,
        r.k,
        r.finished_at,
        MAX(CASE WHEN s.metric_id = 'claims.faithfulness' THEN s.mean END) AS faithfulness,
        MAX(CASE WHEN s.metric_id = 'claims.faithfulness' THEN s.corrected_mean END) AS corrected_faithfulness,
        MAX(CASE WHEN s.metric_id = 'retrieval.mrr' THEN s.mean END) AS mrr,
        MAX(CASE WHEN s.metric_id = 'retrieval.document_mrr' THEN s.mean END) AS document_mrr,
        MAX(CASE WHEN s.metric_id = REPLACE('retrieval.precision_at_#', '#', CAST(r.k AS CHAR(10))) THEN s.mean END)
            AS precision_at_k,
        MAX(
            CASE WHEN s.metric_id = REPLACE('retrieval.document_precision_at_#', '#', CAST(r.k AS CHAR(10))) THEN s.mean END
        ) AS document_precision_at_k,
        MAX(CASE WHEN s.metric_id = REPLACE('retrieval.recall_at_#', '#', CAST(r.k AS CHAR(10))) THEN s.mean END)
            AS recall_at_k,
        MAX(CASE WHEN s.metric_id = REPLACE('retrieval.document_recall_at_#', '#', CAST(r.k AS CHAR(10))) THEN s.mean END)
            AS document_recall_at_k,
        MAX(CASE WHEN s.metric_id = REPLACE('retrieval.hit_rate_at_#', '#', CAST(r.k AS CHAR(10))) THEN s.mean END)
            AS hit_rate_at_k,
        MAX(
            CASE WHEN s.metric_id = REPLACE('retrieval.document_hit_rate_at_#', '#', CAST(r.k AS CHAR(10))) THEN s.mean END
        ) AS document_hit_rate_at_k
    FROM evaluation_runs r
    LEFT JOIN metric_summaries s ON s.evaluation_id = r.id
    WHERE r.status = 'complete'
    GROUP BY r.id, r.client_id, r.dataset_id, r.system_name, r.k, r.finished_at
)
SELECT
    n.id AS run_id,
    n.client_id,
    n.dataset_id,
    d.name AS dataset_name,
    n.system_name,
    CASE WHEN n.mrr IS NULL THEN n.document_precision_at_k ELSE n.precision_at_k END AS precision_at_k,
    CASE WHEN n.mrr IS NULL THEN n.document_recall_at_k ELSE n.recall_at_k END AS recall_at_k,
    CASE WHEN n.mrr IS NULL THEN n.document_hit_rate_at_k ELSE n.hit_rate_at_k END AS hit_rate_at_k,
    CASE WHEN n.mrr IS NULL THEN n.document_mrr ELSE n.mrr END AS mrr,
    n.faithfulness,
    n.corrected_faithfulness,
    n.k,
    n.finished_at AS created_at
FROM numbers n
JOIN evaluation_datasets d ON d.id = n.dataset_id
