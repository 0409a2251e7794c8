-- One row: one of the twenty questions (by id) with the lowest reciprocal rank in the latest finished evaluation of a
-- client's dataset by a system; at document level where nothing is known at chunk level. Perfect ones are left out.
-- order by: client_id, dataset_name, system_name, difficulty_rank
WITH latest AS (
    SELECT
        r.id,
        r.client_id,
        r.system_name,
        r.dataset_id,
        r.finished_at,
        d.name AS dataset_name
    FROM evaluation_runs r
    JOIN evaluation_datasets d ON d.id = r.dataset_id
    WHERE r.newest = TRUE
),
outcomes AS (
    SELECT
        l.client_id,
        l.dataset_name,
        l.dataset_id,
        l.system_name,
        l.id AS evaluation_id,
        l.finished_at,
        i.item_id,
        m.metric_id,
        m.status,
        m.value,
        -- The outcome that counts: the first one without an error, else the error. Windows are of one client each, so
        -- that a condition on client_id reaches the tables.
        ROW_NUMBER() OVER (
            PARTITION BY l.client_id, l.id, i.item_id
            ORDER BY CASE WHEN m.status = 'error' THEN 1 ELSE 0 END, m.take
        ) AS choice
    FROM latest l
    JOIN metric_summaries s
        ON s.evaluation_id = l.id
        AND (
            (s.metric_id = 'retrieval.mrr' AND s.mean IS NOT NULL)
            OR (
                s.metric_id = 'retrieval.document_mrr'
                AND (
                    SELECT c.mean
                    FROM metric_summaries c
                    WHERE c.evaluation_id = l.id AND c.metric_id = 'retrieval.mrr'
                ) IS NULL
            )
        )
    JOIN run_items i ON i.evaluation_id = l.id
    JOIN metric_scores m
        ON m.client_id = i.client_id
        AND m.result_id = i.result_id
        AND m.metric_id = s.metric_id
        AND m.metric_version = s.metric_version
),
ranked AS (
    SELECT
        o.*,
        ROW_NUMBER() OVER (
            PARTITION BY o.client_id, o.evaluation_id
            ORDER BY CASE WHEN o.status = 'error' THEN 0 ELSE 1 END, o.value, o.item_id
        ) AS difficulty_rank
    FROM outcomes o
    WHERE o.choice = 1 AND (o.status = 'error' OR o.value < 1)
)
SELECT
    client_id,
    dataset_name,
    system_name,
    difficulty_rank,
    item_id,
    status,
    value AS reciprocal_rank,
    metric_id,
    evaluation_id,
    dataset_id,
    finished_at
FROM ranked
WHERE difficulty_rank <= 20
