-- One row: a headline metric, or the share of questions rightly answered or declined, over the questions of one category
-- in the newest complete evaluation of a client's dataset by a system; at document level where nothing is known at chunk
-- level.
-- mean is of the n_scored of its n questions: a mean of few says little (rageval runs show ID --by category: intervals).
-- order by: client_id, dataset_name, system_name, metric_id, COALESCE(mean, 2), category
WITH latest AS (
    SELECT
        r.id,
        r.client_id,
        r.system_name,
        r.dataset_id,
        r.k,
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
        q.category,
        m.metric_id,
        m.status,
        m.value,
        -- The outcome that counts: the first one without an error, else the error. Only of metrics that ask a judge
        -- may an evaluation have used a later one (run_items.takes), and none of these does.
        ROW_NUMBER() OVER (
            PARTITION BY l.client_id, l.id, i.item_id, m.metric_id
            ORDER BY CASE WHEN m.status = 'error' THEN 1 ELSE 0 END, m.take
        ) AS choice
    FROM latest l
    JOIN metric_summaries s
        ON s.evaluation_id = l.id
        AND s.metric_id IN (
            'quality.refusal_correct',
            'retrieval.mrr',
            'retrieval.ndcg_at_10',
            REPLACE('retrieval.precision_at_#', '#', CAST(l.k AS CHAR(10))),
            REPLACE('retrieval.recall_at_#', '#', CAST(l.k AS CHAR(10))),
            REPLACE('retrieval.hit_rate_at_#', '#', CAST(l.k AS CHAR(10))),
            'retrieval.document_mrr',
            'retrieval.document_ndcg_at_10',
            REPLACE('retrieval.document_precision_at_#', '#', CAST(l.k AS CHAR(10))),
            REPLACE('retrieval.document_recall_at_#', '#', CAST(l.k AS CHAR(10))),
            REPLACE('retrieval.document_hit_rate_at_#', '#', CAST(l.k AS CHAR(10)))
        )
        -- The document level speaks only where the chunk level is silent.
        AND (
            s.metric_id NOT LIKE 'retrieval.document%'
            OR (
                SELECT c.mean
                FROM metric_summaries c
                WHERE c.evaluation_id = l.id AND c.metric_id = 'retrieval.mrr'
            ) IS NULL
        )
    JOIN run_items i ON i.evaluation_id = l.id
    JOIN dataset_items q ON q.dataset_id = l.dataset_id AND q.item_id = i.item_id
    JOIN metric_scores m
        ON m.client_id = i.client_id
        AND m.result_id = i.result_id
        AND m.metric_id = s.metric_id
        AND m.metric_version = s.metric_version
),
-- By windows instead of groups: a condition on client_id reaches the tables through them on every database.
categories AS (
    SELECT
        o.*,
        AVG(o.value) OVER w AS mean,
        COUNT(*) OVER w AS n,
        COUNT(o.value) OVER w AS n_scored,
        SUM(CASE WHEN o.status = 'undefined' THEN 1 ELSE 0 END) OVER w AS n_undefined,
        SUM(CASE WHEN o.status = 'error' THEN 1 ELSE 0 END) OVER w AS n_error,
        ROW_NUMBER() OVER (PARTITION BY o.client_id, o.evaluation_id, o.category, o.metric_id) AS number
    FROM outcomes o
    WHERE o.choice = 1
    WINDOW w AS (PARTITION BY o.client_id, o.evaluation_id, o.category, o.metric_id)
)
SELECT
    client_id,
    dataset_name,
    dataset_id,
    system_name,
    evaluation_id,
    finished_at,
    category,
    metric_id,
    mean,
    n,
    n_scored,
    n_undefined,
    n_error
FROM categories
WHERE number = 1
