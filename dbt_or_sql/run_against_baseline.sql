-- One row: a metric of a finished evaluation against its baseline, the run last accepted, over all questions that link
-- the two through the nights between. fall is by how much it got worse, whatever its direction; lasting_fall the mean of
-- the last four nights; smallest_drop what would have been called a regression in 80 % of such comparisons; n_shared how
-- many questions were scored both times. gated: the gate looks at it (1 or 0); better: it surely rose (1 or 0). The
-- decision is the metric's, the verdict the evaluation's over all metrics of the gate: passed, regressed, unclear, or
-- failed where the system did.
-- order by: evaluation_id DESC, gated DESC, metric_id
SELECT
    r.client_id,
    d.name AS dataset_name,
    r.dataset_id,
    r.system_name,
    r.id AS evaluation_id,
    c.baseline_id AS baseline_evaluation_id,
    r.finished_at,
    r.verdict,
    c.metric_id,
    CASE WHEN c.gated THEN 1 ELSE 0 END AS gated,
    c.decision,
    c.n_shared,
    c.baseline_mean,
    c.mean,
    c.difference,
    CASE WHEN c.higher_is_better THEN -c.difference ELSE c.difference END AS fall,
    CASE WHEN c.higher_is_better THEN -c.lasting ELSE c.lasting END AS lasting_fall,
    CASE WHEN c.better THEN 1 ELSE 0 END AS better,
    c.ci_low,
    c.ci_high,
    c.smallest_drop,
    c.metric_version
FROM metric_comparisons c
JOIN evaluation_runs r ON r.id = c.evaluation_id
JOIN evaluation_datasets d ON d.id = r.dataset_id
WHERE r.status = 'complete'
