-- Three roles for the history in PostgreSQL, for the schema that comes first in the search path: give rageval one of its
-- own. With the URL of somebody who may create schemas and roles:
--
--     psql "$ADMIN_URL" -c 'CREATE SCHEMA rageval'
--     PGOPTIONS='-c search_path=rageval' psql "$ADMIN_URL" -v ON_ERROR_STOP=1 -f postgresql.sql
--     psql "$ADMIN_URL" -c "ALTER ROLE rageval_owner LOGIN PASSWORD '...'"      and so for the other two
--     RAGEVAL_DATABASE_URL='postgresql+psycopg://rageval_owner:...@HOST/NAME?options=-csearch_path%3Drageval' rageval doctor
--
-- The last line makes tables and views, and is run again after each update of rageval. Services and commands get the URL
-- of rageval_writer, dashboards that of rageval_reader.
--
--     rageval_owner     makes and changes tables and views
--     rageval_writer    reads and writes rows; makes, changes and drops nothing
--     rageval_reader    reads the views: names, ids, counts and scores, no text of documents, questions or answers
--
-- Running this again changes nothing. Tables that another user made before are handed over first:
-- REASSIGN OWNED BY other TO rageval_owner.

DO $$
DECLARE
    role_name text;
    view_name text;
    place text := current_schema();
BEGIN
    IF place IS NULL THEN
        RAISE EXCEPTION 'there is no schema in the search path: create one, and name it in PGOPTIONS';
    END IF;
    FOREACH role_name IN ARRAY ARRAY['rageval_owner', 'rageval_writer', 'rageval_reader'] LOOP
        IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = role_name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
        END IF;
    END LOOP;
    -- Who is no superuser speaks for the owner only as a member.
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        EXECUTE format('GRANT rageval_owner TO %I', current_user);
    END IF;

    EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', place);
    EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO rageval_owner', place);
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO rageval_writer, rageval_reader', place);

    -- What is there already.
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %I TO rageval_writer', place);
    EXECUTE format('GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA %I TO rageval_writer', place);
    FOR view_name IN SELECT viewname FROM pg_views WHERE schemaname = place LOOP
        EXECUTE format('GRANT SELECT ON %I.%I TO rageval_reader', place, view_name);
    END LOOP;

    -- What the owner makes later. The views rageval itself grants to the reader as it makes them.
    EXECUTE format(
        'ALTER DEFAULT PRIVILEGES FOR ROLE rageval_owner IN SCHEMA %I '
        'GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO rageval_writer',
        place
    );
    EXECUTE format(
        'ALTER DEFAULT PRIVILEGES FOR ROLE rageval_owner IN SCHEMA %I GRANT USAGE, SELECT ON SEQUENCES TO rageval_writer',
        place
    );
END
$$;
