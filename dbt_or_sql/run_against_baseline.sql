-- One row: a metric of a finished evaluation against its baseline, the run last accepted, on the questions that both
-- have scored. fall is by how much it got worse, whatever its direction; smallest_drop is what could have been seen in
-- 80 % of such comparisons. gated: the gate looks at it (1 or 0). The verdict is the evaluation's, over all metrics of
-- the gate: passed, regressed, or too_few questions to tell.
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
    c.ci_low,
    c.ci_high,
    c.p_value,
    c.adjusted_p,
    c.smallest_drop,
    c.metric_version
FROM metric_comparisons c
JOIN evaluation_runs r ON r.id = c.evaluation_id
JOIN evaluation_datasets d ON d.id = r.dataset_id
WHERE r.status = 'complete'
