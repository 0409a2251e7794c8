-- One row: the latest finished evaluation of a client's dataset by a system, with its headline metrics at chunk level, or
-- at document level where nothing is known at chunk level.
-- order by: client_id, dataset_name, system_name
WITH latest AS (
    SELECT
        r.*,
        d.name AS dataset_name
    FROM evaluation_runs r
    JOIN evaluation_datasets d ON d.id = r.dataset_id
    WHERE r.newest = TRUE
),
levels AS (
    SELECT
        l.id AS evaluation_id,
        CASE WHEN m.mean IS NULL THEN 'retrieval.document_' ELSE 'retrieval.' END AS prefix
    FROM latest l
    LEFT JOIN metric_summaries m ON m.evaluation_id = l.id AND m.metric_id = 'retrieval.mrr'
),
headline AS (
    SELECT
        s.evaluation_id,
        v.prefix,
        s.mean,
        s.ceiling,
        s.n_scored,
        CASE s.metric_id
            WHEN REPLACE('@mrr', '@', v.prefix) THEN 'mrr'
            WHEN REPLACE('@ndcg_at_10', '@', v.prefix) THEN 'ndcg'
            WHEN REPLACE(REPLACE('@precision_at_#', '@', v.prefix), '#', CAST(l.k AS CHAR(10))) THEN 'precision'
            WHEN REPLACE(REPLACE('@recall_at_#', '@', v.prefix), '#', CAST(l.k AS CHAR(10))) THEN 'recall'
            WHEN REPLACE(REPLACE('@hit_rate_at_#', '@', v.prefix), '#', CAST(l.k AS CHAR(10))) THEN 'hit_rate'
        END AS metric_name
    FROM latest l
    JOIN levels v ON v.evaluation_id = l.id
    JOIN metric_summaries s ON s.evaluation_id = l.id
)
SELECT
    l.client_id,
    l.dataset_name,
    l.dataset_id,
    l.system_name,
    l.id AS evaluation_id,
    l.finished_at,
    CASE MAX(h.prefix) WHEN 'retrieval.' THEN 'chunk' WHEN 'retrieval.document_' THEN 'document' END AS metric_level,
    l.k,
    l.item_count,
    l.error_count,
    MAX(CASE WHEN h.metric_name = 'mrr' THEN h.n_scored END) AS n_scored,
    MAX(CASE WHEN h.metric_name = 'precision' THEN h.mean END) AS precision_at_k,
    MAX(CASE WHEN h.metric_name = 'precision' THEN h.ceiling END) AS precision_ceiling,
    MAX(CASE WHEN h.metric_name = 'recall' THEN h.mean END) AS recall_at_k,
    MAX(CASE WHEN h.metric_name = 'hit_rate' THEN h.mean END) AS hit_rate_at_k,
    MAX(CASE WHEN h.metric_name = 'mrr' THEN h.mean END) AS mrr,
    MAX(CASE WHEN h.metric_name = 'ndcg' THEN h.mean END) AS ndcg_at_10,
    l.duration_s,
    l.cost_usd
FROM latest l
LEFT JOIN headline h ON h.evaluation_id = l.id
GROUP BY
    l.client_id, l.dataset_name, l.dataset_id, l.system_name, l.id, l.finished_at, l.k, l.item_count, l.error_count,
    l.duration_s, l.cost_usd
