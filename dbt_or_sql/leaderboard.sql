-- One row: a metric of the latest finished evaluation of a client's dataset by a system, with the system's place among
-- all that were evaluated on the very same dataset (1: the best; systems that are alike share a place). Whether a lead is
-- more than chance tells the report, which compares question by question.
-- order by: client_id, dataset_name, metric_id, place, system_name
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
)
SELECT
    l.client_id,
    l.dataset_name,
    l.dataset_id,
    s.metric_id,
    RANK() OVER (
        PARTITION BY l.client_id, l.dataset_id, s.metric_id
        ORDER BY CASE WHEN s.higher_is_better THEN -s.mean ELSE s.mean END
    ) AS place,
    COUNT(*) OVER (PARTITION BY l.client_id, l.dataset_id, s.metric_id) AS systems,
    l.system_name,
    l.id AS evaluation_id,
    s.mean,
    s.ci_low,
    s.ci_high,
    s.n_scored,
    l.finished_at
FROM latest l
JOIN metric_summaries s ON s.evaluation_id = l.id
WHERE s.mean IS NOT NULL
