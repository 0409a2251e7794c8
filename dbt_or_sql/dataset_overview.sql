-- One row: a frozen dataset, with its verdict and how often it was used. newest is 1 for the version of a name that was
-- checked last; a retired one is not evaluated any more. How much of the corpus it touches is as its last run, or its
-- import, found it.
-- order by: client_id, dataset_name, dataset_id DESC
WITH uses AS (
    SELECT
        dataset_id,
        COUNT(*) AS evaluations,
        COUNT(DISTINCT system_name) AS systems,
        MAX(finished_at) AS last_evaluated_at
    FROM evaluation_runs
    WHERE status = 'complete'
    GROUP BY dataset_id
)
SELECT
    d.client_id,
    d.name AS dataset_name,
    d.id AS dataset_id,
    d.kind,
    d.qa_count,
    CASE WHEN d.valid THEN 'yes' ELSE 'no' END AS valid,
    CASE
        WHEN ROW_NUMBER() OVER (PARTITION BY d.client_id, d.name ORDER BY d.checked_at DESC, d.id DESC) = 1 THEN 1
        ELSE 0
    END AS newest,
    d.documents,
    d.documents_touched,
    d.topics,
    d.topics_touched,
    COALESCE(u.evaluations, 0) AS evaluations,
    COALESCE(u.systems, 0) AS systems,
    u.last_evaluated_at,
    d.retired_at,
    d.created_at,
    d.created_by,
    d.checked_at,
    d.dataset_version,
    d.corpus_version
FROM evaluation_datasets d
LEFT JOIN uses u ON u.dataset_id = d.id
