-- One row: a metric of a finished evaluation beside the finished evaluation before it of the same dataset by the same
-- system. improvement is the change with its sign turned where lower is better; the last columns say (1 or 0) which of
-- the versions changed in between, that is, why. A system that declares no version may have changed all the same:
-- system_note says so.
-- order by: evaluation_id DESC, metric_id
SELECT
    current_run.client_id,
    d.name AS dataset_name,
    current_run.dataset_id,
    current_run.system_name,
    current_run.id AS evaluation_id,
    current_run.previous_id AS previous_evaluation_id,
    current_run.finished_at,
    s.metric_id,
    s.mean,
    p.mean AS previous_mean,
    CASE WHEN s.metric_version = p.metric_version THEN s.mean - p.mean END AS delta,
    CASE
        WHEN s.metric_version = p.metric_version AND s.higher_is_better THEN s.mean - p.mean
        WHEN s.metric_version = p.metric_version THEN p.mean - s.mean
    END AS improvement,
    s.n_scored,
    p.n_scored AS previous_n_scored,
    s.n_error,
    p.n_error AS previous_n_error,
    CASE WHEN s.metric_version = p.metric_version THEN 0 ELSE 1 END AS metric_changed,
    CASE WHEN COALESCE(current_run.corpus_version, '') = COALESCE(previous_run.corpus_version, '') THEN 0 ELSE 1 END AS corpus_changed,
    CASE WHEN COALESCE(current_run.index_version, '') = COALESCE(previous_run.index_version, '') THEN 0 ELSE 1 END AS index_changed,
    CASE WHEN COALESCE(current_run.system_version, '') = COALESCE(previous_run.system_version, '') THEN 0 ELSE 1 END AS system_changed,
    CASE
        WHEN current_run.system_declared IS NULL OR previous_run.system_declared IS NULL THEN 'system unversioned, may have changed'
        WHEN COALESCE(current_run.system_version, '') = COALESCE(previous_run.system_version, '') THEN 'same system'
        ELSE 'system changed'
    END AS system_note,
    current_run.system_declared,
    previous_run.system_declared AS previous_system_declared
FROM evaluation_runs current_run
JOIN evaluation_datasets d ON d.id = current_run.dataset_id
JOIN evaluation_runs previous_run ON previous_run.id = current_run.previous_id
JOIN metric_summaries s ON s.evaluation_id = current_run.id
JOIN metric_summaries p ON p.evaluation_id = current_run.previous_id AND p.metric_id = s.metric_id
WHERE current_run.status = 'complete'
