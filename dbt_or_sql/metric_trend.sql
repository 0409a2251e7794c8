-- One row: a metric in one of the last ten finished evaluations of a client's dataset by a system (run_age 1 is the
-- latest), with the mean of it and the up to four before, and the change since the one before where both asked the same
-- questions and measured the same way.
-- order by: client_id, dataset_name, system_name, metric_id, run_age
WITH newest AS (
    -- DISTINCT, though no two are alike: so that the oldest is looked for once, and not for each of the runs.
    SELECT DISTINCT
        r.client_id,
        d.name AS dataset_name,
        r.system_name,
        -- Four more than are shown, for the first moving averages; from the newest one back, by an index.
        (
            SELECT b.id
            FROM evaluation_runs b
            JOIN evaluation_datasets o ON o.id = b.dataset_id
            WHERE
                b.client_id = r.client_id
                AND b.system_name = r.system_name
                AND o.name = d.name
                AND b.status = 'complete'
            ORDER BY b.id DESC
            LIMIT 1 OFFSET 13
        ) AS oldest_id
    FROM evaluation_runs r
    JOIN evaluation_datasets d ON d.id = r.dataset_id
    WHERE r.newest = TRUE
),
runs AS (
    SELECT
        r.id,
        r.client_id,
        n.dataset_name,
        r.system_name,
        r.dataset_id,
        r.finished_at,
        ROW_NUMBER() OVER (PARTITION BY r.client_id, n.dataset_name, r.system_name ORDER BY r.id DESC) AS run_age
    FROM newest n
    JOIN evaluation_runs r
        ON r.client_id = n.client_id
        AND r.system_name = n.system_name
        AND r.status = 'complete'
        AND r.id >= COALESCE(n.oldest_id, 0)
    JOIN evaluation_datasets d ON d.id = r.dataset_id AND d.name = n.dataset_name
),
series AS (
    SELECT
        r.client_id,
        r.dataset_name,
        r.system_name,
        s.metric_id,
        r.run_age,
        r.id AS evaluation_id,
        r.dataset_id,
        r.finished_at,
        s.mean,
        s.ci_low,
        s.ci_high,
        s.n_scored,
        s.metric_version,
        AVG(s.mean) OVER (
            PARTITION BY r.client_id, r.dataset_name, r.system_name, s.metric_id
            ORDER BY r.id ROWS BETWEEN 4 PRECEDING AND CURRENT ROW
        ) AS moving_average,
        LAG(s.mean) OVER (
            PARTITION BY r.client_id, r.dataset_name, r.system_name, s.metric_id ORDER BY r.id
        ) AS previous_mean,
        LAG(r.dataset_id) OVER (
            PARTITION BY r.client_id, r.dataset_name, r.system_name, s.metric_id ORDER BY r.id
        ) AS previous_dataset_id,
        LAG(s.metric_version) OVER (
            PARTITION BY r.client_id, r.dataset_name, r.system_name, s.metric_id ORDER BY r.id
        ) AS previous_metric_version
    FROM runs r
    JOIN metric_summaries s ON s.evaluation_id = r.id
)
SELECT
    client_id,
    dataset_name,
    system_name,
    metric_id,
    run_age,
    evaluation_id,
    dataset_id,
    finished_at,
    mean,
    moving_average,
    CASE
        WHEN previous_dataset_id = dataset_id AND previous_metric_version = metric_version THEN mean - previous_mean
    END AS delta,
    ci_low,
    ci_high,
    n_scored
FROM series
WHERE run_age <= 10
