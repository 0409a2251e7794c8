-- One row: a client, worst first. Of the latest finished evaluations of its datasets by its systems it shows the
-- gravest, then the one with most questions: the headline metric that fell most since the evaluation before of the same
-- version of the dataset and system, over the same questions (worst_delta); where none fell, the reciprocal rank, so that from day to day it is the same number.
-- questions are those of the dataset shown, items those of all. Clients whose systems
-- returned passages of other clients come before all others, then those that regressed against their baseline, the
-- deepest fall of a metric of the gate first (regressed_metric, regressed_by), then those whose system failed, then
-- those whose last run failed (failed_run_id: their numbers are older); clients never evaluated come last, vanished
-- ones after them. system_note is about any of the systems; verdict is the worst of them all, first
-- where each is its own baseline. newly_failing counts
-- the questions that newly fail, each once a system; newly_failing_evaluation_id is the last evaluation in which any
-- does. Fewer than five generated questions, which cannot show anything, make no client unclear whose system passed a
-- larger dataset, unless a metric fell, a question newly fails, evidence was lost or answers changed. Retired datasets, and systems that the client's
-- settings do not name any more, do not count.
-- order by: worst_rank
WITH counted AS (
    SELECT
        r.id,
        r.client_id,
        r.dataset_id,
        r.system_name,
        r.k,
        r.item_count,
        r.error_count,
        r.foreign_chunks,
        r.unknown_chunks,
        r.system_declared,
        r.verdict AS own_verdict,
        r.changes,
        d.kind,
        r.newly_failing,
        r.finished_at,
        d.name AS dataset_name,
        r.previous_id
    FROM evaluation_runs r
    JOIN evaluation_datasets d ON d.id = r.dataset_id
    WHERE r.newest = TRUE
        AND d.retired_at IS NULL
        AND (
            r.system_name IN (SELECT s.system_name FROM client_systems s WHERE s.client_id = r.client_id)
            OR NOT EXISTS (SELECT 1 FROM client_systems s WHERE s.client_id = r.client_id)
        )
),
runs AS (
    SELECT
        r.*,
        -- As gate.decision.deciding says, with its LEAST_QUESTIONS.
        CASE
            WHEN r.own_verdict = 'unclear'
                AND r.kind = 'generated'
                AND r.item_count < 5
                AND EXISTS (
                    SELECT 1
                    FROM counted o
                    WHERE o.client_id = r.client_id
                        AND o.system_name = r.system_name
                        AND o.item_count >= 5
                        AND o.own_verdict = 'passed'
                )
                AND COALESCE(r.newly_failing, '[]') = '[]'
                AND COALESCE(r.changes, '') NOT LIKE '%"evidence"%'
                AND COALESCE(r.changes, '') NOT LIKE '%"changed_answers"%'
                AND NOT EXISTS (
                    SELECT 1
                    FROM metric_comparisons c
                    WHERE c.evaluation_id = r.id
                        AND c.gated
                        AND CASE WHEN c.higher_is_better THEN c.difference ELSE -c.difference END < 0
                )
            THEN NULL
            ELSE r.own_verdict
        END AS verdict
    FROM counted r
),
headline AS (
    SELECT
        r.client_id,
        r.id AS evaluation_id,
        s.metric_id,
        s.mean,
        s.mean - p.mean AS delta,
        ROW_NUMBER() OVER (
            PARTITION BY r.client_id
            ORDER BY
                CASE
                    WHEN r.foreign_chunks > 0 THEN 0
                    WHEN r.verdict = 'regressed' THEN 1
                    WHEN r.verdict = 'failed' THEN 2
                    WHEN r.verdict = 'unclear' THEN 3
                    ELSE 4
                END,
                r.item_count DESC,
                CASE WHEN s.mean - p.mean IS NULL THEN 1 ELSE 0 END,
                CASE WHEN s.mean < p.mean THEN s.mean - p.mean ELSE 0 END,
                CASE WHEN s.metric_id LIKE '%mrr' THEN 0 ELSE 1 END,
                CASE WHEN s.mean IS NULL THEN 1 ELSE 0 END,
                s.mean,
                r.id,
                s.metric_id
        ) AS badness
    FROM runs r
    LEFT JOIN metric_summaries s
        ON s.evaluation_id = r.id
        AND s.metric_id IN (
            'retrieval.mrr',
            'retrieval.ndcg_at_10',
            REPLACE('retrieval.precision_at_#', '#', CAST(r.k AS CHAR(10))),
            REPLACE('retrieval.recall_at_#', '#', CAST(r.k AS CHAR(10))),
            REPLACE('retrieval.hit_rate_at_#', '#', CAST(r.k AS CHAR(10))),
            'retrieval.document_mrr',
            'retrieval.document_ndcg_at_10',
            REPLACE('retrieval.document_precision_at_#', '#', CAST(r.k AS CHAR(10))),
            REPLACE('retrieval.document_recall_at_#', '#', CAST(r.k AS CHAR(10))),
            REPLACE('retrieval.document_hit_rate_at_#', '#', CAST(r.k AS CHAR(10)))
        )
    LEFT JOIN metric_summaries p
        ON p.evaluation_id = r.previous_id
        AND p.metric_id = s.metric_id
        AND p.metric_version = s.metric_version
        -- Means of other questions are no change: of another version of the dataset, or where some failed.
        AND p.n_scored = s.n_scored
        AND p.n_error = 0
        AND s.n_error = 0
        AND r.dataset_id = (SELECT b.dataset_id FROM evaluation_runs b WHERE b.id = r.previous_id)
    -- The document level speaks only where the chunk level is silent.
    WHERE s.metric_id IS NULL
        OR s.metric_id NOT LIKE 'retrieval.document%'
        OR (
            SELECT c.mean
            FROM metric_summaries c
            WHERE c.evaluation_id = r.id AND c.metric_id = 'retrieval.mrr'
        ) IS NULL
),
regressions AS (
    SELECT
        r.client_id,
        r.id AS evaluation_id,
        c.metric_id,
        c.mean,
        CASE WHEN c.higher_is_better THEN -c.difference ELSE c.difference END AS fall,
        ROW_NUMBER() OVER (
            PARTITION BY r.client_id
            ORDER BY CASE WHEN c.higher_is_better THEN c.difference ELSE -c.difference END, r.id, c.metric_id
        ) AS depth
    FROM runs r
    JOIN metric_comparisons c ON c.evaluation_id = r.id AND c.gated AND c.decision = 'regressed'
    WHERE r.verdict = 'regressed'
),
totals AS (
    SELECT
        client_id,
        COUNT(*) AS evaluations,
        SUM(error_count) AS errors,
        SUM(item_count) AS items,
        SUM(foreign_chunks) AS foreign_chunks,
        SUM(unknown_chunks) AS unknown_chunks,
        SUM(CASE WHEN system_declared IS NULL AND error_count < item_count THEN 1 ELSE 0 END) AS unversioned,
        SUM(CASE WHEN verdict = 'regressed' THEN 1 ELSE 0 END) AS regressed,
        SUM(CASE WHEN verdict = 'failed' THEN 1 ELSE 0 END) AS failed,
        SUM(CASE WHEN verdict = 'unclear' THEN 1 ELSE 0 END) AS unclear,
        SUM(CASE WHEN verdict = 'passed' THEN 1 ELSE 0 END) AS passed,
        SUM(CASE WHEN verdict = 'first' THEN 1 ELSE 0 END) AS first_runs,
        -- The ids have no comma in them, and no two databases count the entries of a list by the same name.
        SUM(
            CASE
                WHEN newly_failing IS NULL OR newly_failing = '[]' THEN 0
                ELSE LENGTH(newly_failing) - LENGTH(REPLACE(newly_failing, ',', '')) + 1
            END
        ) AS newly_failing,
        MAX(CASE WHEN newly_failing <> '[]' THEN id END) AS newly_failing_evaluation_id,
        MAX(finished_at) AS evaluated_at
    FROM runs
    GROUP BY client_id
),
failures AS (
    SELECT client_id, MAX(run_id) AS run_id
    FROM incidents
    WHERE kind = 'failed_run' AND closed_at IS NULL
    GROUP BY client_id
)
SELECT
    ROW_NUMBER() OVER (
        ORDER BY
            CASE WHEN c.vanished_at IS NULL THEN 0 ELSE 1 END,
            CASE WHEN t.client_id IS NULL AND f.client_id IS NULL THEN 1 ELSE 0 END,
            CASE WHEN t.foreign_chunks > 0 THEN 0 ELSE 1 END,
            CASE WHEN g.fall IS NULL THEN 1 ELSE 0 END,
            COALESCE(-g.fall, 0),
            CASE WHEN t.failed > 0 THEN 0 ELSE 1 END,
            CASE WHEN f.client_id IS NULL THEN 1 ELSE 0 END,
            COALESCE(h.delta, 0),
            CASE WHEN m.mean IS NULL THEN 0 ELSE 1 END,
            m.mean,
            c.client_id
    ) AS worst_rank,
    c.client_id,
    CASE
        WHEN t.regressed > 0 THEN 'regressed'
        WHEN t.failed > 0 THEN 'failed'
        WHEN t.unclear > 0 THEN 'unclear'
        WHEN t.passed > 0 THEN 'passed'
        WHEN t.first_runs > 0 THEN 'first'
    END AS verdict,
    f.run_id AS failed_run_id,
    g.metric_id AS regressed_metric,
    g.mean AS regressed_mean,
    g.fall AS regressed_by,
    h.delta AS worst_delta,
    CASE WHEN h.mean IS NOT NULL THEN h.metric_id END AS worst_metric,
    h.mean AS worst_mean,
    m.mean AS mrr,
    w.dataset_name,
    w.system_name,
    w.id AS evaluation_id,
    w.item_count AS questions,
    COALESCE(t.evaluations, 0) AS evaluations,
    COALESCE(t.items, 0) AS items,
    COALESCE(t.errors, 0) AS errors,
    t.newly_failing,
    t.newly_failing_evaluation_id,
    t.foreign_chunks,
    t.unknown_chunks,
    CASE
        WHEN t.unversioned > 0 THEN 'system unversioned, may have changed'
        WHEN t.unversioned = 0 THEN 'system versioned'
    END AS system_note,
    t.evaluated_at,
    c.change_seq - c.evaluated_seq AS pending_changes,
    c.document_count,
    c.chunk_count,
    c.scanned_at,
    c.vanished_at
FROM clients c
LEFT JOIN totals t ON t.client_id = c.client_id
LEFT JOIN failures f ON f.client_id = c.client_id
LEFT JOIN regressions g ON g.client_id = c.client_id AND g.depth = 1
LEFT JOIN headline h ON h.client_id = c.client_id AND h.badness = 1
LEFT JOIN runs w ON w.id = COALESCE(g.evaluation_id, h.evaluation_id)
LEFT JOIN metric_summaries m
    ON m.evaluation_id = h.evaluation_id
    AND m.metric_id = CASE
        WHEN h.metric_id LIKE 'retrieval.document%' THEN 'retrieval.document_mrr' ELSE 'retrieval.mrr'
    END
