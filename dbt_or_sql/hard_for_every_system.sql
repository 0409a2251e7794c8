-- One row: one of the twenty questions (by id) that are hardest for all systems: whose best reciprocal rank, over the
-- latest finished evaluations of the very same dataset by two systems or more, is lowest; at document level where nothing
-- is known at chunk level. Questions that some system finds at once are left out.
-- order by: client_id, dataset_name, dataset_id, difficulty_rank
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
        l.finished_at,
        i.item_id,
        m.status,
        m.value,
        -- The outcome that counts: the first one without an error, else the error.
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
questions AS (
    SELECT
        client_id,
        dataset_name,
        dataset_id,
        item_id,
        COUNT(*) AS systems,
        SUM(CASE WHEN status = 'error' THEN 1 ELSE 0 END) AS errors,
        MAX(value) AS best_reciprocal_rank,
        AVG(value) AS mean_reciprocal_rank,
        MAX(finished_at) AS finished_at
    FROM outcomes
    WHERE choice = 1 AND status IN ('scored', 'error')
    GROUP BY client_id, dataset_name, dataset_id, item_id
    HAVING COUNT(*) > 1
),
ranked AS (
    SELECT
        q.*,
        ROW_NUMBER() OVER (
            PARTITION BY q.client_id, q.dataset_id
            ORDER BY
                CASE WHEN q.best_reciprocal_rank IS NULL THEN 0 ELSE 1 END,
                q.best_reciprocal_rank,
                q.mean_reciprocal_rank,
                q.item_id
        ) AS difficulty_rank
    FROM questions q
    WHERE q.best_reciprocal_rank IS NULL OR q.best_reciprocal_rank < 1
)
SELECT
    client_id,
    dataset_name,
    difficulty_rank,
    item_id,
    systems,
    errors,
    best_reciprocal_rank,
    mean_reciprocal_rank,
    dataset_id,
    finished_at
FROM ranked
WHERE difficulty_rank <= 20
