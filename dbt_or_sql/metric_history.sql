-- One row: a metric of a finished evaluation, with its counts, interval and the versions behind it. corrected_mean is what people would say,
-- by their labels; null without enough of them.
-- order by: finished_at DESC, evaluation_id DESC, metric_id
SELECT
    r.client_id,
    d.name AS dataset_name,
    r.dataset_id,
    r.system_name,
    r.id AS evaluation_id,
    r.finished_at,
    s.metric_id,
    s.mean,
    s.ci_low,
    s.ci_high,
    s.n,
    s.n_scored,
    s.n_undefined,
    s.n_error,
    s.min_value,
    s.max_value,
    s.worst_low,
    s.worst_high,
    s.ceiling,
    s.good_value,
    s.corrected_mean,
    s.corrected_low,
    s.corrected_high,
    s.labels,
    s.mean - s.corrected_mean AS judge_bias,
    s.agreement,
    s.metric_version,
    r.trigger_key,
    r.corpus_version,
    r.index_version,
    r.dataset_version,
    r.system_version,
    r.system_declared,
    CASE WHEN r.system_declared IS NULL THEN 'system unversioned, may have changed' ELSE 'system versioned' END AS system_note,
    r.judge_version
FROM metric_summaries s
JOIN evaluation_runs r ON r.id = s.evaluation_id
JOIN evaluation_datasets d ON d.id = r.dataset_id
WHERE r.status = 'complete'
