-- A store as schema 12 left it, in SQL: what tests/contract/test_store_of_before.py opens. Made once, by the version that wrote it.
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA dataflow;
CREATE FUNCTION dataflow.event_is_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ begin raise exception 'event is append-only: history is never changed'; end $$;
CREATE FUNCTION dataflow.lease_now() RETURNS double precision
    LANGUAGE sql STABLE
    AS $$ select extract(epoch from clock_timestamp())::double precision $$;
COMMENT ON FUNCTION dataflow.lease_now() IS 'the clock of leases: the server''s, so that no client''s clock matters';
CREATE FUNCTION dataflow.note_by_session() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ begin new.who := session_user; return new; end $$;
CREATE FUNCTION dataflow.note_chunk() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
    if tg_op <> 'INSERT' then
        insert into dataflow.note (datasetid, dataid, jobid, locktype, before, after, who)
        values (old.datasetid, old.dataid, old.jobid, old.locktype, old.status,
                case when tg_op = 'UPDATE' and (old.datasetid, old.dataid, old.locktype) = (new.datasetid, new.dataid, new.locktype)
                     then new.status end, session_user);
    end if;
    if tg_op = 'INSERT' or (tg_op = 'UPDATE'
            and (old.datasetid, old.dataid, old.locktype) <> (new.datasetid, new.dataid, new.locktype)) then
        insert into dataflow.note (datasetid, dataid, jobid, locktype, before, after, who)
        values (new.datasetid, new.dataid, new.jobid, new.locktype, null, new.status, session_user);
    end if;
    return null;
end $$;
CREATE FUNCTION dataflow.note_definition() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
    -- Whoever publishes holds this lock shared: a new consumer never misses a chunk that is being published meanwhile.
    perform pg_advisory_xact_lock(727102);
    update dataflow.meta set value = (value::bigint + 1)::text where name = 'revision';
    if tg_table_name = 'job' then
        insert into dataflow.note (jobid, who) values (case when tg_op = 'DELETE' then old.jobid else new.jobid end, session_user);
    elsif tg_table_name = 'dataset' and tg_op = 'UPDATE' then
        insert into dataflow.note (datasetid, who) values (new.datasetid, session_user);
    end if;
    return null;
end $$;
CREATE FUNCTION dataflow.session_of_writer() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ begin new.session := session_user; return new; end $$;
CREATE FUNCTION dataflow.status_in_canonical_words() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    new.status := upper(new.status);
    new.status := case when new.locktype = 'OUT' and new.status = 'COMPLETE' then 'READY'
                       when new.locktype = 'OUT' and new.status = 'RERUN' then 'RESUBMIT'
                       when new.status = 'ERROR' then 'FAILED'
                       else new.status end;
    if tg_op = 'UPDATE' then
        if new.locktype = 'IN' and new.status in ('RESUBMIT', 'RERUN') then
            new.status := case when old.status = 'RUNNING' then 'RUNNING' else 'FAILED' end;
        end if;
        if new.modified is not distinct from old.modified then
            new.modified := now();
        end if;
        if new.locktype = 'OUT' and new.status in ('HOLD', 'PENDING') and old.status not in ('HOLD', 'PENDING') then
            new.held := old.status;
        end if;
    end if;
    return new;
end $$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE dataflow.candidate (
    jobid text NOT NULL,
    dataid text NOT NULL,
    sort_key text NOT NULL COLLATE pg_catalog."C",
    rank smallint DEFAULT 1 NOT NULL,
    state text NOT NULL,
    not_before double precision DEFAULT 0 NOT NULL,
    inputs text DEFAULT '[]'::text NOT NULL,
    CONSTRAINT candidate_state_check CHECK ((state = ANY (ARRAY['CLAIMABLE'::text, 'WAITING'::text, 'DEFERRED'::text])))
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='500');
COMMENT ON TABLE dataflow.candidate IS 'derived from datastatus and rebuilt at any time: rank 0 = RESUBMIT, 1 = new';
CREATE TABLE dataflow.data_manifest (
    datasetid text NOT NULL,
    dataid text NOT NULL,
    version bigint NOT NULL,
    jobid text NOT NULL,
    runid bigint,
    location text DEFAULT ''::text CONSTRAINT data_manifest_place_not_null NOT NULL,
    format text DEFAULT ''::text NOT NULL,
    bytes bigint,
    rows bigint,
    span_lower text,
    span_upper text,
    fingerprint text,
    passed boolean DEFAULT true NOT NULL,
    body text DEFAULT '{}'::text NOT NULL,
    published timestamp with time zone DEFAULT now() NOT NULL
);
COMMENT ON TABLE dataflow.data_manifest IS 'DataLoc: where each published version of each chunk is, and what it was when it was published';
CREATE TABLE dataflow.datastatus (
    datasetid text NOT NULL,
    jobid text CONSTRAINT datastatus_dataid_not_null NOT NULL,
    dataid text CONSTRAINT datastatus_jobid_not_null NOT NULL,
    locktype text NOT NULL,
    status text NOT NULL,
    modified timestamp with time zone DEFAULT now(),
    epoch bigint DEFAULT 0 NOT NULL,
    version bigint DEFAULT 0 NOT NULL,
    runid bigint,
    tries integer DEFAULT 0 NOT NULL,
    held text,
    sort_key text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    lowerbound text,
    upperbound text,
    seal bigint DEFAULT 0 NOT NULL,
    CONSTRAINT datastatus_key_check CHECK (((((((dataid || ' '::text) || jobid) || ' '::text) || locktype) ~ '^[A-Za-z0-9][A-Za-z0-9._=-]* [A-Za-z0-9][A-Za-z0-9._=-]* (IN|OUT)$'::text) AND (length(dataid) <= 128) AND (length(jobid) <= 128))),
    CONSTRAINT known_status CHECK (
CASE locktype
    WHEN 'OUT'::text THEN (status = ANY (ARRAY['RUNNING'::text, 'READY'::text, 'FAILED'::text, 'RESUBMIT'::text, 'HOLD'::text, 'PENDING'::text]))
    ELSE (status = ANY (ARRAY['RUNNING'::text, 'DONE'::text, 'FAILED'::text]))
END)
);
COMMENT ON TABLE dataflow.datastatus IS 'status and lock of every chunk: OUT rows as a product, IN rows as one job''s relation to it';
COMMENT ON COLUMN dataflow.datastatus.seal IS 'every write of the engine changes it; a change that leaves it came from outside and is noted';
CREATE TABLE dataflow.job (
    jobid text NOT NULL,
    itemtype text NOT NULL,
    datasetid text,
    itemvalue text,
    modified timestamp with time zone DEFAULT now(),
    CONSTRAINT job_check CHECK (((itemtype <> ALL (ARRAY['IN'::text, 'OUT'::text])) OR (datasetid IS NOT NULL))),
    CONSTRAINT job_itemtype_check CHECK ((itemtype <> ''::text)),
    CONSTRAINT job_jobid_check CHECK ((jobid ~ '^[A-Za-z0-9][A-Za-z0-9._=-]{0,127}$'::text))
);
COMMENT ON TABLE dataflow.job IS 'one row per item: IN or OUT with a dataset (itemvalue of IN = the mapping), or the name of an environment variable with its value';
CREATE TABLE dataflow.run (
    runid bigint NOT NULL,
    jobid text NOT NULL,
    dataid text NOT NULL,
    epoch bigint NOT NULL,
    status text NOT NULL,
    pool text DEFAULT ''::text NOT NULL,
    owner text DEFAULT ''::text NOT NULL,
    lease double precision DEFAULT 30 NOT NULL,
    lease_until double precision,
    forced boolean DEFAULT false NOT NULL,
    inputs text DEFAULT '[]'::text NOT NULL,
    started timestamp with time zone DEFAULT now() NOT NULL,
    ended timestamp with time zone,
    outcome text,
    detail text,
    exit_code integer,
    log text,
    CONSTRAINT run_status_check CHECK ((status = ANY (ARRAY['RUNNING'::text, 'READY'::text, 'FAILED'::text, 'LOST'::text, 'REFUSED'::text])))
);
COMMENT ON TABLE dataflow.run IS 'one row per attempt of (jobid, dataid); lease_until by lease_now()';
CREATE VIEW dataflow.candidate_facts AS
 SELECT c.jobid,
    c.dataid,
    c.rank,
    c.sort_key,
    (1 + GREATEST(COALESCE(( SELECT max(r.epoch) AS max
           FROM dataflow.run r
          WHERE ((r.jobid = c.jobid) AND (r.dataid = c.dataid))), (0)::bigint), COALESCE(o.epoch, (0)::bigint), COALESCE(o.version, (0)::bigint))) AS epoch,
    COALESCE(o.tries, 0) AS tries,
    COALESCE(( SELECT (json_agg(json_build_array((i.value ->> 0), (i.value ->> 1), s.status, s.version)))::text AS json_agg
           FROM (json_array_elements((c.inputs)::json) i(value)
             LEFT JOIN LATERAL ( SELECT d.status,
                    d.version
                   FROM dataflow.datastatus d
                  WHERE ((d.datasetid = (i.value ->> 0)) AND (d.dataid = (i.value ->> 1)) AND (d.locktype = 'OUT'::text))
                 OFFSET 0) s ON (true))), '[]'::text) AS inputs
   FROM (dataflow.candidate c
     CROSS JOIN LATERAL ( SELECT max(GREATEST(s.epoch, s.version)) AS epoch,
            max(s.tries) AS tries,
            max(( SELECT max(m.version) AS max
                   FROM dataflow.data_manifest m
                  WHERE ((m.datasetid = o_1.datasetid) AND (m.dataid = c.dataid)))) AS version
           FROM (dataflow.job o_1
             LEFT JOIN LATERAL ( SELECT d.epoch,
                    d.version,
                    d.tries
                   FROM dataflow.datastatus d
                  WHERE ((d.datasetid = o_1.datasetid) AND (d.dataid = c.dataid) AND (d.locktype = 'OUT'::text))
                 OFFSET 0) s ON (true))
          WHERE ((o_1.jobid = c.jobid) AND (o_1.itemtype = 'OUT'::text))) o);
CREATE TABLE dataflow.dataset (
    datasetid text NOT NULL,
    hostname text DEFAULT ''::text,
    database text DEFAULT ''::text,
    schemaname text DEFAULT ''::text,
    tablename text DEFAULT ''::text,
    username text DEFAULT ''::text,
    encryptedpass text DEFAULT ''::text,
    kind text DEFAULT ''::text NOT NULL,
    location text DEFAULT ''::text NOT NULL,
    format text DEFAULT ''::text NOT NULL,
    partition text DEFAULT 'text'::text NOT NULL,
    checks text DEFAULT '{}'::text NOT NULL,
    options text DEFAULT '{}'::text NOT NULL,
    modified timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT dataset_datasetid_check CHECK ((datasetid ~ '^[A-Za-z0-9][A-Za-z0-9._=-]{0,127}$'::text)),
    CONSTRAINT dataset_kind_check CHECK ((kind = ANY (ARRAY[''::text, 'file'::text, 'table'::text])))
);
COMMENT ON TABLE dataflow.dataset IS 'a named body of data with everything needed to reach it; passwords only encrypted';
CREATE TABLE dataflow.event (
    eventid bigint NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    kind text NOT NULL,
    datasetid text,
    dataid text,
    jobid text,
    runid bigint,
    epoch bigint,
    before text,
    after text,
    who text,
    why text,
    receipt text,
    session text DEFAULT SESSION_USER
);
COMMENT ON TABLE dataflow.event IS 'append-only: every transition with who, when, why and the receipt';
COMMENT ON COLUMN dataflow.event.session IS 'the role that was connected when the event was written; nobody can choose it';
ALTER TABLE dataflow.event ALTER COLUMN eventid ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME dataflow.event_eventid_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE dataflow.incident (
    incidentid bigint NOT NULL,
    kind text NOT NULL,
    cause text NOT NULL,
    why text DEFAULT ''::text NOT NULL,
    datasetid text NOT NULL,
    dataid text NOT NULL,
    jobid text DEFAULT ''::text NOT NULL,
    chunks bigint DEFAULT 0 NOT NULL,
    most bigint DEFAULT 0 NOT NULL,
    opened timestamp with time zone DEFAULT now() NOT NULL,
    closed timestamp with time zone,
    CONSTRAINT incident_kind_check CHECK ((kind = ANY (ARRAY['failed'::text, 'late'::text, 'refused'::text, 'recalled'::text])))
);
CREATE TABLE dataflow.incident_chunk (
    kind text NOT NULL,
    datasetid text NOT NULL,
    dataid text NOT NULL,
    incidentid bigint NOT NULL,
    eventid bigint DEFAULT 0 NOT NULL
);
ALTER TABLE dataflow.incident ALTER COLUMN incidentid ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME dataflow.incident_incidentid_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE VIEW dataflow.job_status AS
 SELECT jobid,
    datasetid,
    dataid,
    status,
    modified,
    epoch,
    version,
    tries
   FROM dataflow.datastatus s
  WHERE ((locktype = 'OUT'::text) AND (EXISTS ( SELECT 1
           FROM dataflow.job o
          WHERE ((o.datasetid = s.datasetid) AND (o.itemtype = 'OUT'::text)))));
COMMENT ON VIEW dataflow.job_status IS 'UPDATE job_status SET status = ''RESUBMIT'' WHERE … restarts; the next claim acts on it';
CREATE TABLE dataflow.jobrule (
    jobid text NOT NULL,
    retries integer DEFAULT 0 NOT NULL,
    backoff double precision DEFAULT 10 NOT NULL,
    backoff_max double precision DEFAULT 3600 NOT NULL,
    retry_on text DEFAULT ''::text NOT NULL,
    lease double precision DEFAULT 30 NOT NULL,
    timeout double precision,
    pool text DEFAULT ''::text NOT NULL,
    options text DEFAULT '{}'::text NOT NULL,
    modified timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT jobrule_backoff_check CHECK ((backoff >= (0)::double precision)),
    CONSTRAINT jobrule_backoff_max_check CHECK ((backoff_max >= (0)::double precision)),
    CONSTRAINT jobrule_jobid_check CHECK ((jobid ~ '^[A-Za-z0-9][A-Za-z0-9._=-]{0,127}$'::text)),
    CONSTRAINT jobrule_lease_check CHECK ((lease > (0)::double precision)),
    CONSTRAINT jobrule_retries_check CHECK ((retries >= 0)),
    CONSTRAINT jobrule_timeout_check CHECK ((timeout > (0)::double precision))
);
COMMENT ON TABLE dataflow.jobrule IS 'how a job is run: retries, lease, timeout, pool; a job without a row has the defaults';
CREATE TABLE dataflow.log_tail (
    runid bigint NOT NULL,
    tail text NOT NULL
);
CREATE TABLE dataflow.made_from (
    in_datasetid text NOT NULL,
    in_dataid text NOT NULL,
    in_version bigint NOT NULL,
    datasetid text NOT NULL,
    dataid text NOT NULL,
    version bigint NOT NULL
);
CREATE TABLE dataflow.message (
    messageid bigint NOT NULL,
    incidentid bigint NOT NULL,
    target text NOT NULL,
    what text NOT NULL,
    number bigint DEFAULT 0 NOT NULL,
    state text DEFAULT 'WAITING'::text NOT NULL,
    chunks bigint DEFAULT 0 NOT NULL,
    not_before double precision DEFAULT 0 NOT NULL,
    lease_until double precision DEFAULT 0 NOT NULL,
    tries bigint DEFAULT 0 NOT NULL,
    problem text DEFAULT ''::text NOT NULL,
    who text DEFAULT ''::text NOT NULL,
    written timestamp with time zone DEFAULT now() NOT NULL,
    ended timestamp with time zone,
    CONSTRAINT message_state_check CHECK ((state = ANY (ARRAY['WAITING'::text, 'SENDING'::text, 'SENT'::text, 'DROPPED'::text]))),
    CONSTRAINT message_what_check CHECK ((what = ANY (ARRAY['opened'::text, 'reminder'::text, 'over'::text])))
);
ALTER TABLE dataflow.message ALTER COLUMN messageid ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME dataflow.message_messageid_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE dataflow.meta (
    name text NOT NULL,
    value text NOT NULL
);
COMMENT ON TABLE dataflow.meta IS 'facts about the store itself: revision of the definitions, environment';
CREATE TABLE dataflow.migration (
    number integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied timestamp with time zone NOT NULL
);
CREATE TABLE dataflow.note (
    noteid bigint NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    datasetid text,
    dataid text,
    jobid text,
    locktype text,
    before text,
    after text,
    who text
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='200');
COMMENT ON TABLE dataflow.note IS 'what was changed from outside since the last claim; the next claim folds it in';
ALTER TABLE dataflow.note ALTER COLUMN noteid ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME dataflow.note_noteid_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE dataflow.noticed (
    name text NOT NULL,
    eventid bigint NOT NULL
);
CREATE TABLE dataflow.pause (
    jobid text NOT NULL,
    who text DEFAULT 'sql'::text NOT NULL,
    why text,
    since timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT pause_jobid_check CHECK (((length(jobid) >= 1) AND (length(jobid) <= 128)))
);
CREATE TABLE dataflow.pool (
    poolid text NOT NULL,
    slots integer,
    options text DEFAULT '{}'::text NOT NULL,
    modified timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT pool_places_check CHECK ((slots >= 0)),
    CONSTRAINT pool_poolid_check CHECK ((poolid ~ '^[A-Za-z0-9][A-Za-z0-9._=-]{0,127}$'::text))
);
COMMENT ON TABLE dataflow.pool IS 'a limit on running chunks across all machines; slots null = no limit, 0 = paused';
CREATE TABLE dataflow.recalled (
    datasetid text NOT NULL,
    dataid text NOT NULL,
    version bigint NOT NULL,
    who text DEFAULT 'sql'::text NOT NULL,
    why text DEFAULT ''::text NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE VIEW dataflow.receipt AS
 SELECT eventid AS receiptid,
    at,
    jobid,
    datasetid,
    dataid,
    runid,
        CASE
            WHEN (kind <> 'claimed'::text) THEN after
            WHEN (why = 'forced'::text) THEN 'NOT_ASKED'::text
            ELSE 'YES'::text
        END AS verdict,
    who,
    receipt
   FROM dataflow.event
  WHERE (receipt IS NOT NULL);
CREATE TABLE dataflow.remake (
    datasetid text NOT NULL,
    dataid text NOT NULL,
    version bigint NOT NULL
);
ALTER TABLE dataflow.run ALTER COLUMN runid ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME dataflow.run_runid_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE dataflow.stale (
    datasetid text NOT NULL,
    dataid text NOT NULL,
    version bigint NOT NULL,
    in_datasetid text NOT NULL,
    in_dataid text NOT NULL,
    in_version bigint NOT NULL
);
INSERT INTO dataflow.candidate VALUES ('sum', '2025-11', '2025-11', 1, 'WAITING', 0, '[["clean","2025-11-01"],["clean","2025-11-02"],["clean","2025-11-03"],["clean","2025-11-04"],["clean","2025-11-05"],["clean","2025-11-06"],["clean","2025-11-07"],["clean","2025-11-08"],["clean","2025-11-09"],["clean","2025-11-10"],["clean","2025-11-11"],["clean","2025-11-12"],["clean","2025-11-13"],["clean","2025-11-14"],["clean","2025-11-15"],["clean","2025-11-16"],["clean","2025-11-17"],["clean","2025-11-18"],["clean","2025-11-19"],["clean","2025-11-20"],["clean","2025-11-21"],["clean","2025-11-22"],["clean","2025-11-23"],["clean","2025-11-24"],["clean","2025-11-25"],["clean","2025-11-26"],["clean","2025-11-27"],["clean","2025-11-28"],["clean","2025-11-29"],["clean","2025-11-30"]]');
INSERT INTO dataflow.candidate VALUES ('load', '2025-11-06', '2025-11-06', 1, 'CLAIMABLE', 0, '[["raw","2025-11-06"]]');
INSERT INTO dataflow.candidate VALUES ('split', '1', '000000000000000001', 1, 'WAITING', 0, '[["other","1"],["seen","1"]]');
INSERT INTO dataflow.candidate VALUES ('split', '10', '000000000000000010', 1, 'WAITING', 0, '[["other","10"],["seen","10"]]');
INSERT INTO dataflow.candidate VALUES ('split', '3', '000000000000000003', 0, 'DEFERRED', 1795128312.7492824, '[["other","3"],["seen","3"]]');
INSERT INTO dataflow.candidate VALUES ('copy', '2', '000000000000000002', 1, 'CLAIMABLE', 0, '[["seen","2"]]');
INSERT INTO dataflow.candidate VALUES ('copy', '3', '000000000000000003', 1, 'CLAIMABLE', 0, '[["seen","3"]]');
INSERT INTO dataflow.candidate VALUES ('copy', '10', '000000000000000010', 1, 'CLAIMABLE', 0, '[["seen","10"]]');
INSERT INTO dataflow.data_manifest VALUES ('raw', '2025-11-01', 1, 'outside', NULL, '/data/raw/2025-11-01.csv', 'csv', 120, NULL, NULL, NULL, 'raw 2025-11-01', true, '{"files":[["/data/raw/2025-11-01.csv",120,1762000000.5,"c0ffee"]]}', '2025-11-16 11:08:55.089982+00');
INSERT INTO dataflow.data_manifest VALUES ('raw', '2025-11-02', 1, 'outside', NULL, '/data/raw/2025-11-02.csv', 'csv', 120, NULL, NULL, NULL, 'raw 2025-11-02', true, '{"files":[["/data/raw/2025-11-02.csv",120,1762000000.5,"c0ffee"]]}', '2025-11-16 11:08:55.089982+00');
INSERT INTO dataflow.data_manifest VALUES ('raw', '2025-11-03', 1, 'outside', NULL, '/data/raw/2025-11-03.csv', 'csv', 120, NULL, NULL, NULL, 'raw 2025-11-03', true, '{"files":[["/data/raw/2025-11-03.csv",120,1762000000.5,"c0ffee"]]}', '2025-11-16 11:08:55.089982+00');
INSERT INTO dataflow.data_manifest VALUES ('raw', '2025-11-04', 1, 'outside', NULL, '/data/raw/2025-11-04.csv', 'csv', 120, NULL, NULL, NULL, 'raw 2025-11-04', true, '{"files":[["/data/raw/2025-11-04.csv",120,1762000000.5,"c0ffee"]]}', '2025-11-16 11:08:55.089982+00');
INSERT INTO dataflow.data_manifest VALUES ('raw', '2025-11-05', 1, 'outside', NULL, '/data/raw/2025-11-05.csv', 'csv', 120, NULL, NULL, NULL, 'raw 2025-11-05', true, '{"files":[["/data/raw/2025-11-05.csv",120,1762000000.5,"c0ffee"]]}', '2025-11-16 11:08:55.089982+00');
INSERT INTO dataflow.data_manifest VALUES ('raw', '2025-11-06', 1, 'outside', NULL, '/data/raw/2025-11-06.csv', 'csv', 120, NULL, NULL, NULL, 'raw 2025-11-06', true, '{"files":[["/data/raw/2025-11-06.csv",120,1762000000.5,"c0ffee"]]}', '2025-11-16 11:08:55.089982+00');
INSERT INTO dataflow.data_manifest VALUES ('clean', '2025-11-01', 1, 'load', 1, '/data/clean/2025-11-01/v1', 'parquet', 300, 10, '2025-11-01', '2025-11-01', '10 2025-11-01', true, '{"files":[["part-0.parquet",300,1762000001.0,null]],"schema":"carrier STRING, delay INT","checks":[{"check":"not_null carrier","kind":"not_null","severity":"error","passed":true,"figures":{"nulls":0}},{"check":"rows","kind":"rows","severity":"error","passed":true,"figures":{"rows":10}}],"spark_app":"local-1","extra":{"writer":"opendataflow"},"inputs":[["raw","2025-11-01",1]]}', '2025-11-16 11:08:55.122742+00');
INSERT INTO dataflow.data_manifest VALUES ('clean', '2025-11-02', 1, 'load', 2, '/data/clean/2025-11-02/v1', 'parquet', 300, 20, '2025-11-02', '2025-11-02', '20 2025-11-02', true, '{"files":[["part-0.parquet",300,1762000001.0,null]],"schema":"carrier STRING, delay INT","checks":[{"check":"not_null carrier","kind":"not_null","severity":"error","passed":true,"figures":{"nulls":0}},{"check":"rows","kind":"rows","severity":"error","passed":true,"figures":{"rows":20}}],"spark_app":"local-1","extra":{"writer":"opendataflow"},"inputs":[["raw","2025-11-02",1]]}', '2025-11-16 11:08:55.139991+00');
INSERT INTO dataflow.data_manifest VALUES ('clean', '2025-11-02', 2, 'load', 3, '/data/clean/2025-11-02/v2', 'parquet', 300, 25, '2025-11-02', '2025-11-02', '25 2025-11-02', true, '{"files":[["part-0.parquet",300,1762000001.0,null]],"schema":"carrier STRING, delay INT","checks":[{"check":"not_null carrier","kind":"not_null","severity":"error","passed":true,"figures":{"nulls":0}},{"check":"rows","kind":"rows","severity":"error","passed":true,"figures":{"rows":25}}],"spark_app":"local-1","extra":{"writer":"opendataflow"},"inputs":[["raw","2025-11-02",1]]}', '2025-11-16 11:08:55.1596+00');
INSERT INTO dataflow.data_manifest VALUES ('copied', '1', 1, 'copy', 6, '', '', NULL, NULL, NULL, NULL, NULL, true, '{"inputs":[["seen","1",1]]}', '2025-11-16 11:08:55.201853+00');
INSERT INTO dataflow.data_manifest VALUES ('copied', '7', 1, 'copy', 7, '', '', NULL, NULL, NULL, NULL, NULL, true, '{"inputs":[["seen","7",0]]}', '2025-11-16 11:08:55.215764+00');
INSERT INTO dataflow.data_manifest VALUES ('other', '2', 1, 'outside', NULL, '', '', NULL, NULL, NULL, NULL, 'other 2', true, '{}', '2026-11-19 22:45:07.735696+00');
INSERT INTO dataflow.data_manifest VALUES ('other', '3', 1, 'outside', NULL, '', '', NULL, NULL, NULL, NULL, 'other 3', true, '{}', '2026-11-19 22:45:07.735696+00');
INSERT INTO dataflow.data_manifest VALUES ('left', '2', 1, 'split', 9, '/data/left/2/v1', 'parquet', NULL, 2, NULL, NULL, 'left 2', true, '{"inputs":[["other","2",1],["seen","2",1]]}', '2026-11-19 22:45:07.739779+00');
INSERT INTO dataflow.data_manifest VALUES ('right', '2', 1, 'split', 9, '/data/right/2/v1', 'parquet', NULL, 2, NULL, NULL, 'right 2', true, '{"inputs":[["other","2",1],["seen","2",1]]}', '2026-11-19 22:45:07.739779+00');
INSERT INTO dataflow.data_manifest VALUES ('left__rejected', '2', 1, 'split', 9, '/data/left__rejected/2/v1', 'parquet', NULL, 2, NULL, NULL, 'left__rejected 2', true, '{"inputs":[["other","2",1],["seen","2",1]]}', '2026-11-19 22:45:07.739779+00');
INSERT INTO dataflow.data_manifest VALUES ('raw', '2025-11-03', 2, 'outside', NULL, '/data/raw/2025-11-03.csv', 'csv', 130, NULL, NULL, NULL, 'raw again', true, '{}', '2026-11-19 22:45:07.744035+00');
INSERT INTO dataflow.dataset VALUES ('today', '', '', '', '', '', '', '', '', '', '{"type": "day"}', '{}', '{"timezone": "UTC"}', '2025-11-16 11:08:55+00');
INSERT INTO dataflow.dataset VALUES ('clean', '', '', '', '', '', '', 'file', 'clean/{dataid}', 'parquet', '{"type":"day","column":"day","start":"2025-11-01"}', '{"rows":{"min":1},"not_null":["carrier"]}', '{"readers":3}', '2025-11-16 11:08:55+00');
INSERT INTO dataflow.dataset VALUES ('copied', '', '', '', '', '', '', '', '', '', '{"type":"number"}', '{}', '{}', '2025-11-16 11:08:55+00');
INSERT INTO dataflow.dataset VALUES ('month', '', '', '', '', '', '', '', '', '', '{"type":"month"}', '{}', '{}', '2025-11-16 11:08:55+00');
INSERT INTO dataflow.dataset VALUES ('orders', 'db.example', 'shop', 'public', 'orders', 'etl', 'odf1:AAIAAAIBlilrqJnCmPYcsNBrP8QhAy9DHzXWyaV8_rKZFoAUkSZBKrCTH6nUR-QHDQ_zkAJS0Tk', 'table', '', 'postgres', '{"type":"range","column":"id","count":4,"lower":"0","upper":"4000"}', '{}', '{}', '2025-11-16 11:08:55+00');
INSERT INTO dataflow.dataset VALUES ('raw', '', '', '', '', '', '', 'file', 'raw/{dataid}.csv', 'csv', '{"type":"day"}', '{}', '{}', '2025-11-16 11:08:55+00');
INSERT INTO dataflow.dataset VALUES ('seen', '', '', '', '', '', '', '', '', '', '{"type":"number"}', '{}', '{}', '2025-11-16 11:08:55+00');
INSERT INTO dataflow.dataset VALUES ('left', '', '', '', '', '', '', '', '', '', '{"type":"number"}', '{}', '{}', '2026-11-19 22:45:07+00');
INSERT INTO dataflow.dataset VALUES ('left__rejected', '', '', '', '', '', '', '', '', '', '{"type":"number"}', '{}', '{"repeats":true,"empty":true}', '2026-11-19 22:45:07+00');
INSERT INTO dataflow.dataset VALUES ('other', '', '', '', '', '', '', '', '', '', '{"type":"number"}', '{}', '{}', '2026-11-19 22:45:07+00');
INSERT INTO dataflow.dataset VALUES ('right', '', '', '', '', '', '', '', '', '', '{"type":"number"}', '{}', '{}', '2026-11-19 22:45:07+00');
INSERT INTO dataflow.datastatus VALUES ('raw', 'outside', '2025-11-01', 'OUT', 'READY', '2025-11-16 11:08:55.089443+00', 1, 1, NULL, 0, NULL, '2025-11-01', NULL, NULL, 1);
INSERT INTO dataflow.datastatus VALUES ('raw', 'outside', '2025-11-02', 'OUT', 'READY', '2025-11-16 11:08:55.089443+00', 1, 1, NULL, 0, NULL, '2025-11-02', NULL, NULL, 1);
INSERT INTO dataflow.datastatus VALUES ('raw', 'outside', '2025-11-03', 'OUT', 'READY', '2026-11-19 22:45:07.74564+00', 2, 1, NULL, 0, NULL, '2025-11-03', NULL, NULL, 3);
INSERT INTO dataflow.datastatus VALUES ('raw', 'outside', '2025-11-04', 'OUT', 'READY', '2025-11-16 11:08:55.089443+00', 1, 1, NULL, 0, NULL, '2025-11-04', NULL, NULL, 1);
INSERT INTO dataflow.datastatus VALUES ('raw', 'outside', '2025-11-05', 'OUT', 'READY', '2025-11-16 11:08:55.089443+00', 1, 1, NULL, 0, NULL, '2025-11-05', NULL, NULL, 1);
INSERT INTO dataflow.datastatus VALUES ('raw', 'outside', '2025-11-06', 'OUT', 'READY', '2025-11-16 11:08:55.089443+00', 1, 1, NULL, 0, NULL, '2025-11-06', NULL, NULL, 1);
INSERT INTO dataflow.datastatus VALUES ('orders', 'outside', '1', 'OUT', 'READY', '2025-11-16 11:08:55.09594+00', 1, 1, NULL, 0, NULL, '000000000000000001', '0', '1000', 1);
INSERT INTO dataflow.datastatus VALUES ('orders', 'outside', '2', 'OUT', 'READY', '2025-11-16 11:08:55.09594+00', 1, 1, NULL, 0, NULL, '000000000000000002', '1000', '2000', 1);
INSERT INTO dataflow.datastatus VALUES ('clean', 'load', '2025-11-01', 'OUT', 'RESUBMIT', '2026-11-19 22:45:07.77+00', 1, 1, 1, 0, NULL, '2025-11-01', NULL, NULL, 5);
INSERT INTO dataflow.datastatus VALUES ('raw', 'load', '2025-11-01', 'IN', 'DONE', '2025-11-16 11:08:55.122427+00', 1, 1, 1, 0, NULL, '', NULL, NULL, 2);
INSERT INTO dataflow.datastatus VALUES ('clean', 'load', '2025-11-02', 'OUT', 'READY', '2025-11-16 11:08:55.159538+00', 2, 2, 3, 0, NULL, '2025-11-02', NULL, NULL, 5);
INSERT INTO dataflow.datastatus VALUES ('raw', 'load', '2025-11-02', 'IN', 'DONE', '2025-11-16 11:08:55.159497+00', 2, 1, 3, 0, NULL, '', NULL, NULL, 4);
INSERT INTO dataflow.datastatus VALUES ('clean', 'load', '2025-11-03', 'OUT', 'FAILED', '2025-11-16 11:08:55.173522+00', 1, 0, 4, 1, NULL, '2025-11-03', NULL, NULL, 2);
INSERT INTO dataflow.datastatus VALUES ('raw', 'load', '2025-11-03', 'IN', 'FAILED', '2025-11-16 11:08:55.173472+00', 1, 1, 4, 0, NULL, '', NULL, NULL, 2);
INSERT INTO dataflow.datastatus VALUES ('clean', 'load', '2025-11-04', 'OUT', 'HOLD', '2025-11-16 11:08:55.177809+00', 0, 0, NULL, 0, NULL, '2025-11-04', NULL, NULL, 1);
INSERT INTO dataflow.datastatus VALUES ('seen', 'outside', '1', 'OUT', 'READY', '2025-11-16 11:08:55.191804+00', 1, 1, NULL, 0, NULL, '000000000000000001', NULL, NULL, 1);
INSERT INTO dataflow.datastatus VALUES ('seen', 'outside', '2', 'OUT', 'READY', '2025-11-16 11:08:55.191804+00', 1, 1, NULL, 0, NULL, '000000000000000002', NULL, NULL, 1);
INSERT INTO dataflow.datastatus VALUES ('seen', 'outside', '3', 'OUT', 'READY', '2025-11-16 11:08:55.191804+00', 1, 1, NULL, 0, NULL, '000000000000000003', NULL, NULL, 1);
INSERT INTO dataflow.datastatus VALUES ('seen', 'outside', '10', 'OUT', 'READY', '2025-11-16 11:08:55.191804+00', 1, 1, NULL, 0, NULL, '000000000000000010', NULL, NULL, 1);
INSERT INTO dataflow.datastatus VALUES ('copied', 'copy', '1', 'OUT', 'READY', '2025-11-16 11:08:55.201647+00', 1, 1, 6, 0, NULL, '000000000000000001', NULL, NULL, 2);
INSERT INTO dataflow.datastatus VALUES ('seen', 'copy', '1', 'IN', 'DONE', '2025-11-16 11:08:55.201592+00', 1, 1, 6, 0, NULL, '', NULL, NULL, 2);
INSERT INTO dataflow.datastatus VALUES ('copied', 'copy', '7', 'OUT', 'HOLD', '2026-11-19 22:45:07.77+00', 1, 1, 7, 0, 'READY', '000000000000000007', NULL, NULL, 3);
INSERT INTO dataflow.datastatus VALUES ('seen', 'copy', '7', 'IN', 'DONE', '2025-11-16 11:08:55.215656+00', 1, 0, 7, 0, NULL, '', NULL, NULL, 2);
INSERT INTO dataflow.datastatus VALUES ('clean', 'load', '2025-11-05', 'OUT', 'RUNNING', '2025-11-16 11:08:55.226257+00', 1, 0, 8, 1, NULL, '2025-11-05', NULL, NULL, 1);
INSERT INTO dataflow.datastatus VALUES ('raw', 'load', '2025-11-05', 'IN', 'RUNNING', '2025-11-16 11:08:55.226331+00', 1, 1, 8, 0, NULL, '', NULL, NULL, 1);
INSERT INTO dataflow.datastatus VALUES ('other', 'outside', '2', 'OUT', 'READY', '2026-11-19 22:45:07.735696+00', 1, 1, NULL, 0, NULL, '000000000000000002', NULL, NULL, 1);
INSERT INTO dataflow.datastatus VALUES ('other', 'outside', '3', 'OUT', 'READY', '2026-11-19 22:45:07.735696+00', 1, 1, NULL, 0, NULL, '000000000000000003', NULL, NULL, 1);
INSERT INTO dataflow.datastatus VALUES ('left', 'split', '2', 'OUT', 'READY', '2026-11-19 22:45:07.739779+00', 1, 1, 9, 0, NULL, '000000000000000002', NULL, NULL, 2);
INSERT INTO dataflow.datastatus VALUES ('right', 'split', '2', 'OUT', 'READY', '2026-11-19 22:45:07.739779+00', 1, 1, 9, 0, NULL, '000000000000000002', NULL, NULL, 2);
INSERT INTO dataflow.datastatus VALUES ('other', 'split', '2', 'IN', 'DONE', '2026-11-19 22:45:07.739779+00', 1, 1, 9, 0, NULL, '', NULL, NULL, 2);
INSERT INTO dataflow.datastatus VALUES ('seen', 'split', '2', 'IN', 'DONE', '2026-11-19 22:45:07.739779+00', 1, 1, 9, 0, NULL, '', NULL, NULL, 2);
INSERT INTO dataflow.datastatus VALUES ('left__rejected', 'split', '2', 'OUT', 'READY', '2026-11-19 22:45:07.739779+00', 1, 1, NULL, 0, NULL, '000000000000000002', NULL, NULL, 1);
INSERT INTO dataflow.datastatus VALUES ('left', 'split', '3', 'OUT', 'RESUBMIT', '2026-11-19 22:45:07.742203+00', 1, 0, 10, 1, NULL, '000000000000000003', NULL, NULL, 2);
INSERT INTO dataflow.datastatus VALUES ('right', 'split', '3', 'OUT', 'RESUBMIT', '2026-11-19 22:45:07.742203+00', 1, 0, 10, 1, NULL, '000000000000000003', NULL, NULL, 2);
INSERT INTO dataflow.datastatus VALUES ('other', 'split', '3', 'IN', 'FAILED', '2026-11-19 22:45:07.742203+00', 1, 1, 10, 0, NULL, '', NULL, NULL, 2);
INSERT INTO dataflow.datastatus VALUES ('seen', 'split', '3', 'IN', 'FAILED', '2026-11-19 22:45:07.742203+00', 1, 1, 10, 0, NULL, '', NULL, NULL, 2);
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (1, '2025-11-16 11:08:55.089772+00', 'announced', 'raw', '2025-11-01', 'outside', NULL, 1, NULL, 'READY', 'etl', 'delivered', NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (2, '2025-11-16 11:08:55.089772+00', 'announced', 'raw', '2025-11-02', 'outside', NULL, 1, NULL, 'READY', 'etl', 'delivered', NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (3, '2025-11-16 11:08:55.089772+00', 'announced', 'raw', '2025-11-03', 'outside', NULL, 1, NULL, 'READY', 'etl', 'delivered', NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (4, '2025-11-16 11:08:55.089772+00', 'announced', 'raw', '2025-11-04', 'outside', NULL, 1, NULL, 'READY', 'etl', 'delivered', NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (5, '2025-11-16 11:08:55.089772+00', 'announced', 'raw', '2025-11-05', 'outside', NULL, 1, NULL, 'READY', 'etl', 'delivered', NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (6, '2025-11-16 11:08:55.089772+00', 'announced', 'raw', '2025-11-06', 'outside', NULL, 1, NULL, 'READY', 'etl', 'delivered', NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (7, '2025-11-16 11:08:55.096107+00', 'announced', 'orders', '1', 'outside', NULL, 1, NULL, 'READY', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (8, '2025-11-16 11:08:55.096107+00', 'announced', 'orders', '2', 'outside', NULL, 1, NULL, 'READY', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (9, '2025-11-16 11:08:55.106153+00', 'claimed', 'clean', '2025-11-01', 'load', 1, 1, NULL, 'RUNNING', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (10, '2025-11-16 11:08:55.113768+00', 'admitted', 'clean', '2025-11-01', 'load', 1, 1, NULL, 'YES', 'etl', NULL, '{"jobid":"load","dataid":"2025-11-01","verdict":"YES","ready":{"yes":true,"evidence":{"looked":"ready"}},"right":{"yes":true,"evidence":{"looked":"right"}},"place":{"yes":true,"evidence":{"looked":"place"}},"validated":{"yes":true,"evidence":{"looked":"validated"}},"safe":{"yes":true,"evidence":{"looked":"safe"}}}', 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (11, '2025-11-16 11:08:55.122018+00', 'published', 'clean', '2025-11-01', 'load', 1, 1, 'RUNNING', 'READY', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (12, '2025-11-16 11:08:55.125747+00', 'claimed', 'clean', '2025-11-02', 'load', 2, 1, NULL, 'RUNNING', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (13, '2025-11-16 11:08:55.133451+00', 'admitted', 'clean', '2025-11-02', 'load', 2, 1, NULL, 'YES', 'etl', NULL, '{"jobid":"load","dataid":"2025-11-02","verdict":"YES","ready":{"yes":true,"evidence":{"looked":"ready"}},"right":{"yes":true,"evidence":{"looked":"right"}},"place":{"yes":true,"evidence":{"looked":"place"}},"validated":{"yes":true,"evidence":{"looked":"validated"}},"safe":{"yes":true,"evidence":{"looked":"safe"}}}', 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (14, '2025-11-16 11:08:55.139679+00', 'published', 'clean', '2025-11-02', 'load', 2, 1, 'RUNNING', 'READY', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (15, '2025-11-16 11:08:55.149953+00', 'resubmitted', 'clean', '2025-11-02', 'load', NULL, 1, 'READY', 'RESUBMIT', 'etl', 'bad delivery', NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (16, '2025-11-16 11:08:55.153342+00', 'claimed', 'clean', '2025-11-02', 'load', 3, 2, 'RESUBMIT', 'RUNNING', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (17, '2025-11-16 11:08:55.156004+00', 'admitted', 'clean', '2025-11-02', 'load', 3, 2, NULL, 'YES', 'etl', NULL, '{"jobid":"load","dataid":"2025-11-02","verdict":"YES","ready":{"yes":true,"evidence":{"looked":"ready"}},"right":{"yes":true,"evidence":{"looked":"right"}},"place":{"yes":true,"evidence":{"looked":"place"}},"validated":{"yes":true,"evidence":{"looked":"validated"}},"safe":{"yes":true,"evidence":{"looked":"safe"}}}', 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (18, '2025-11-16 11:08:55.159406+00', 'published', 'clean', '2025-11-02', 'load', 3, 2, 'RUNNING', 'READY', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (19, '2025-11-16 11:08:55.161803+00', 'claimed', 'clean', '2025-11-03', 'load', 4, 1, NULL, 'RUNNING', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (20, '2025-11-16 11:08:55.169496+00', 'admitted', 'clean', '2025-11-03', 'load', 4, 1, NULL, 'YES', 'etl', NULL, '{"jobid":"load","dataid":"2025-11-03","verdict":"YES","ready":{"yes":true,"evidence":{"looked":"ready"}},"right":{"yes":true,"evidence":{"looked":"right"}},"place":{"yes":true,"evidence":{"looked":"place"}},"validated":{"yes":true,"evidence":{"looked":"validated"}},"safe":{"yes":true,"evidence":{"looked":"safe"}}}', 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (21, '2025-11-16 11:08:55.173351+00', 'failed', 'clean', '2025-11-03', 'load', 4, 1, 'RUNNING', 'FAILED', 'etl', 'exit code 3', NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (22, '2025-11-16 11:08:55.177967+00', 'held', 'clean', '2025-11-04', 'load', NULL, NULL, NULL, 'HOLD', 'etl', 'ask the airline', NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (23, '2025-11-16 11:08:55.182661+00', 'claimed', 'clean', '2025-11-06', 'load', 5, 1, NULL, 'RUNNING', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (24, '2025-11-16 11:08:55.187271+00', 'refused', 'clean', '2025-11-06', 'load', 5, 1, 'RUNNING', 'INVALID_PATH', NULL, 'outside the roots', '{"jobid":"load","dataid":"2025-11-06","verdict":"INVALID_PATH","ready":{"yes":true,"evidence":{"looked":"ready"}},"right":{"yes":true,"evidence":{"looked":"right"}},"place":{"yes":false,"why":"outside the roots"}}', 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (25, '2025-11-16 11:08:55.19193+00', 'announced', 'seen', '1', 'outside', NULL, 1, NULL, 'READY', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (26, '2025-11-16 11:08:55.19193+00', 'announced', 'seen', '2', 'outside', NULL, 1, NULL, 'READY', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (27, '2025-11-16 11:08:55.19193+00', 'announced', 'seen', '3', 'outside', NULL, 1, NULL, 'READY', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (28, '2025-11-16 11:08:55.19193+00', 'announced', 'seen', '10', 'outside', NULL, 1, NULL, 'READY', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (29, '2025-11-16 11:08:55.198064+00', 'claimed', 'copied', '1', 'copy', 6, 1, NULL, 'RUNNING', 'etl', NULL, '{"jobid":"copy","dataid":"1","verdict":"YES","ready":{"yes":true,"evidence":{"inputs":[["seen","1","READY"]]}},"right":{"yes":true,"evidence":{"versions":[1],"type":"number"}},"place":{"yes":true,"why":"only tracked: no place and no checks are declared"},"validated":{"yes":true,"why":"only tracked: no place and no checks are declared"},"safe":{"yes":true,"evidence":{"epoch":1,"output":null,"pool":null}}}', 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (30, '2025-11-16 11:08:55.201496+00', 'published', 'copied', '1', 'copy', 6, 1, 'RUNNING', 'READY', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (31, '2025-11-16 11:08:55.210025+00', 'claimed', 'copied', '7', 'copy', 7, 1, NULL, 'RUNNING', 'etl', 'forced', '{"jobid":"copy","dataid":"7","verdict":"DATA_NOT_READY","ready":{"yes":null,"evidence":{"inputs":[["seen","7",null]]},"why":"forced: nobody asked"}}', 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (32, '2025-11-16 11:08:55.215569+00', 'published', 'copied', '7', 'copy', 7, 1, 'RUNNING', 'READY', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (33, '2025-11-16 11:08:55.221363+00', 'refused', 'copied', '8', 'copy', NULL, NULL, NULL, 'DATA_NOT_READY', 'etl', 'seen 8 is not there', '{"jobid":"copy","dataid":"8","verdict":"DATA_NOT_READY","ready":{"yes":false,"evidence":{"inputs":[["seen","8",null]]},"why":"seen 8 is not there"}}', 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (34, '2025-11-16 11:08:55.226375+00', 'claimed', 'clean', '2025-11-05', 'load', 8, 1, NULL, 'RUNNING', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (35, '2025-11-16 11:08:55.229287+00', 'admitted', 'clean', '2025-11-05', 'load', 8, 1, NULL, 'YES', 'etl', NULL, '{"jobid":"load","dataid":"2025-11-05","verdict":"YES","ready":{"yes":true,"evidence":{"looked":"ready"}},"right":{"yes":true,"evidence":{"looked":"right"}},"place":{"yes":true,"evidence":{"looked":"place"}},"validated":{"yes":true,"evidence":{"looked":"validated"}},"safe":{"yes":true,"evidence":{"looked":"safe"}}}', 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (36, '2026-11-19 22:45:07.735696+00', 'announced', 'other', '2', 'outside', NULL, 1, NULL, 'READY', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (37, '2026-11-19 22:45:07.735696+00', 'announced', 'other', '3', 'outside', NULL, 1, NULL, 'READY', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (38, '2026-11-19 22:45:07.738171+00', 'claimed', 'left', '2', 'split', 9, 1, NULL, 'RUNNING', 'etl', NULL, '{"jobid":"split","dataid":"2","verdict":"YES","ready":{"yes":true,"evidence":{"inputs":[["other","2","READY"],["seen","2","READY"]]}},"right":{"yes":true,"evidence":{"type":"number","versions":[1,1]}},"place":{"yes":null,"why":"only tracked: no location and no checks are declared"},"validated":{"yes":null,"why":"only tracked: no location and no checks are declared"},"safe":{"yes":true,"evidence":{"outputs":{"left":null,"right":null},"epoch":1}}}', 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (39, '2026-11-19 22:45:07.738171+00', 'claimed', 'right', '2', 'split', 9, 1, NULL, 'RUNNING', 'etl', NULL, '{"jobid":"split","dataid":"2","verdict":"YES","ready":{"yes":true,"evidence":{"inputs":[["other","2","READY"],["seen","2","READY"]]}},"right":{"yes":true,"evidence":{"type":"number","versions":[1,1]}},"place":{"yes":null,"why":"only tracked: no location and no checks are declared"},"validated":{"yes":null,"why":"only tracked: no location and no checks are declared"},"safe":{"yes":true,"evidence":{"outputs":{"left":null,"right":null},"epoch":1}}}', 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (40, '2026-11-19 22:45:07.739779+00', 'published', 'left', '2', 'split', 9, 1, 'RUNNING', 'READY', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (41, '2026-11-19 22:45:07.739779+00', 'published', 'right', '2', 'split', 9, 1, 'RUNNING', 'READY', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (42, '2026-11-19 22:45:07.739779+00', 'announced', 'left__rejected', '2', 'split', 9, 1, NULL, 'READY', 'etl', 'rejected by run 9 of split', NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (43, '2026-11-19 22:45:07.741547+00', 'claimed', 'left', '3', 'split', 10, 1, NULL, 'RUNNING', 'etl', NULL, '{"jobid":"split","dataid":"3","verdict":"YES","ready":{"yes":true,"evidence":{"inputs":[["other","3","READY"],["seen","3","READY"]]}},"right":{"yes":true,"evidence":{"type":"number","versions":[1,1]}},"place":{"yes":null,"why":"only tracked: no location and no checks are declared"},"validated":{"yes":null,"why":"only tracked: no location and no checks are declared"},"safe":{"yes":true,"evidence":{"outputs":{"left":null,"right":null},"epoch":1}}}', 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (44, '2026-11-19 22:45:07.741547+00', 'claimed', 'right', '3', 'split', 10, 1, NULL, 'RUNNING', 'etl', NULL, '{"jobid":"split","dataid":"3","verdict":"YES","ready":{"yes":true,"evidence":{"inputs":[["other","3","READY"],["seen","3","READY"]]}},"right":{"yes":true,"evidence":{"type":"number","versions":[1,1]}},"place":{"yes":null,"why":"only tracked: no location and no checks are declared"},"validated":{"yes":null,"why":"only tracked: no location and no checks are declared"},"safe":{"yes":true,"evidence":{"outputs":{"left":null,"right":null},"epoch":1}}}', 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (45, '2026-11-19 22:45:07.742203+00', 'failed', 'left', '3', 'split', 10, 1, 'RUNNING', 'RESUBMIT', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (46, '2026-11-19 22:45:07.742203+00', 'failed', 'right', '3', 'split', 10, 1, 'RUNNING', 'RESUBMIT', 'etl', NULL, NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (47, '2026-11-19 22:45:07.744035+00', 'announced', 'raw', '2025-11-03', 'outside', NULL, 2, 'READY', 'READY', 'etl', 'corrected', NULL, 'postgres');
INSERT INTO dataflow.event OVERRIDING SYSTEM VALUE VALUES (48, '2026-11-19 22:45:07.74564+00', 'rolled back', 'raw', '2025-11-03', 'outside', NULL, 2, 'READY', 'READY', 'etl', 'version 2 → 1: it was the wrong file', NULL, 'postgres');
INSERT INTO dataflow.incident OVERRIDING SYSTEM VALUE VALUES (1, 'failed', 'JOB_FAILED exit code 3', 'exit code 3', 'clean', '2025-11-03', 'load', 1, 1, '2025-11-17 08:02:00+00', NULL);
INSERT INTO dataflow.incident_chunk VALUES ('failed', 'clean', '2025-11-03', 1, 17);
INSERT INTO dataflow.job VALUES ('copy', 'IN', 'seen', NULL, '2025-11-16 11:08:55.068051+00');
INSERT INTO dataflow.job VALUES ('copy', 'OUT', 'copied', NULL, '2025-11-16 11:08:55.068128+00');
INSERT INTO dataflow.job VALUES ('load', 'IN', 'raw', NULL, '2025-11-16 11:08:55.068349+00');
INSERT INTO dataflow.job VALUES ('load', 'OUT', 'clean', NULL, '2025-11-16 11:08:55.068416+00');
INSERT INTO dataflow.job VALUES ('load', 'CURRENCY', NULL, 'EUR', '2025-11-16 11:08:55.068457+00');
INSERT INTO dataflow.job VALUES ('sum', 'IN', 'clean', 'rollup', '2025-11-16 11:08:55.068521+00');
INSERT INTO dataflow.job VALUES ('sum', 'OUT', 'month', NULL, '2025-11-16 11:08:55.068554+00');
INSERT INTO dataflow.job VALUES ('split', 'IN', 'other', NULL, '2026-11-19 22:45:07.732221+00');
INSERT INTO dataflow.job VALUES ('split', 'IN', 'seen', NULL, '2026-11-19 22:45:07.732221+00');
INSERT INTO dataflow.job VALUES ('split', 'OUT', 'left', NULL, '2026-11-19 22:45:07.732221+00');
INSERT INTO dataflow.job VALUES ('split', 'OUT', 'right', NULL, '2026-11-19 22:45:07.732221+00');
INSERT INTO dataflow.jobrule VALUES ('copy', 2, 30, 600, 'JOB_FAILED', 30, NULL, '', '{}', '2025-11-16 11:08:55+00');
INSERT INTO dataflow.jobrule VALUES ('load', 0, 10, 3600, '', 45, 600, 'etl', '{}', '2025-11-16 11:08:55+00');
INSERT INTO dataflow.jobrule VALUES ('sum', 0, 10, 3600, '', 30, NULL, '', '{}', '2025-11-16 11:08:55+00');
INSERT INTO dataflow.jobrule VALUES ('split', 1, 5, 3600, '', 30, NULL, '', 'x', '2026-11-19 22:45:07+00');
INSERT INTO dataflow.log_tail VALUES (4, 'exit code 3');
INSERT INTO dataflow.made_from VALUES ('other', '2', 1, 'left', '2', 1);
INSERT INTO dataflow.made_from VALUES ('other', '2', 1, 'left__rejected', '2', 1);
INSERT INTO dataflow.made_from VALUES ('other', '2', 1, 'right', '2', 1);
INSERT INTO dataflow.made_from VALUES ('raw', '2025-11-01', 1, 'clean', '2025-11-01', 1);
INSERT INTO dataflow.made_from VALUES ('raw', '2025-11-02', 1, 'clean', '2025-11-02', 1);
INSERT INTO dataflow.made_from VALUES ('raw', '2025-11-02', 1, 'clean', '2025-11-02', 2);
INSERT INTO dataflow.made_from VALUES ('seen', '1', 1, 'copied', '1', 1);
INSERT INTO dataflow.made_from VALUES ('seen', '2', 1, 'left', '2', 1);
INSERT INTO dataflow.made_from VALUES ('seen', '2', 1, 'left__rejected', '2', 1);
INSERT INTO dataflow.made_from VALUES ('seen', '2', 1, 'right', '2', 1);
INSERT INTO dataflow.made_from VALUES ('seen', '7', 0, 'copied', '7', 1);
INSERT INTO dataflow.message OVERRIDING SYSTEM VALUE VALUES (1, 1, 'oncall', 'opened', 0, 'WAITING', 1, 0, 0, 0, '', '', '2025-11-17 08:02:00+00', NULL);
INSERT INTO dataflow.meta VALUES ('revision', '32');
INSERT INTO dataflow.meta VALUES ('environment', 'dev');
INSERT INTO dataflow.meta VALUES ('schema of clean', 'carrier STRING, delay INT');
INSERT INTO dataflow.meta VALUES ('identity', '21c4026c1067d686');
INSERT INTO dataflow.meta VALUES ('applied', 'd2');
INSERT INTO dataflow.meta VALUES ('jobs of project shop', 'split');
INSERT INTO dataflow.meta VALUES ('lineage dropped', '1');
INSERT INTO dataflow.meta VALUES ('lineage sent', '3');
INSERT INTO dataflow.meta VALUES ('broken copy 30', 'since');
INSERT INTO dataflow.meta VALUES ('mended copy 30', 'since');
INSERT INTO dataflow.meta VALUES ('broken split 32', 'since');
INSERT INTO dataflow.migration VALUES (1, 'foundation', '5b2803e0', '2026-11-19 22:45:08.605957+00');
INSERT INTO dataflow.migration VALUES (2, 'words', '64c7a8c4', '2026-11-19 22:45:08.605957+00');
INSERT INTO dataflow.migration VALUES (3, 'facts', '706dbf47', '2026-11-19 22:45:08.605957+00');
INSERT INTO dataflow.migration VALUES (4, 'original_order', 'e8f2b3f6', '2026-11-19 22:45:08.605957+00');
INSERT INTO dataflow.migration VALUES (5, 'on_call', 'f23523e9', '2026-11-19 22:45:08.605957+00');
INSERT INTO dataflow.migration VALUES (6, 'lineage', '61323e0f', '2026-11-19 22:45:08.605957+00');
INSERT INTO dataflow.migration VALUES (7, 'stale', 'b7551a48', '2026-11-19 22:45:08.605957+00');
INSERT INTO dataflow.migration VALUES (8, 'notify', '926cbf6b', '2026-11-19 22:45:08.605957+00');
INSERT INTO dataflow.migration VALUES (9, 'history', 'e92e9de7', '2026-11-19 22:45:08.605957+00');
INSERT INTO dataflow.migration VALUES (10, 'cheaper_rows', '5b3fb083', '2026-11-19 22:45:08.605957+00');
INSERT INTO dataflow.migration VALUES (11, 'remarks', '455a0710', '2026-11-19 22:45:08.605957+00');
INSERT INTO dataflow.migration VALUES (12, 'fewer_looks', '7a481e95', '2026-11-19 22:45:08.605957+00');
INSERT INTO dataflow.note OVERRIDING SYSTEM VALUE VALUES (14, '2026-11-19 22:45:07.77+00', 'clean', '2025-11-01', 'load', 'OUT', 'READY', 'RESUBMIT', 'postgres');
INSERT INTO dataflow.note OVERRIDING SYSTEM VALUE VALUES (15, '2026-11-19 22:45:07.77+00', 'copied', '7', 'copy', 'OUT', 'READY', 'HOLD', 'postgres');
INSERT INTO dataflow.noticed VALUES ('seen', 35);
INSERT INTO dataflow.pause VALUES ('later', 'olga', 'month end', '2025-11-17 08:00:00+00');
INSERT INTO dataflow.pool VALUES ('etl', 4, '{"hours":["Mon-Fri 08:00-18:00 -> 2"]}', '2025-11-16 11:08:55+00');
INSERT INTO dataflow.pool VALUES ('night', 0, '{}', '2025-11-16 11:08:55+00');
INSERT INTO dataflow.recalled VALUES ('copied', '1', 1, 'olga', 'wrong columns', '2025-11-17 08:01:00+00');
INSERT INTO dataflow.remake VALUES ('clean', '2025-11-01', 1);
INSERT INTO dataflow.run OVERRIDING SYSTEM VALUE VALUES (1, 'load', '2025-11-01', 1, 'READY', 'etl', 'etl', 45, NULL, false, '[["raw","2025-11-01",1]]', '2025-11-16 11:08:55.104747+00', '2025-11-16 11:08:55.122096+00', 'READY', NULL, 0, '/logs/load/2025-11-01-1.log');
INSERT INTO dataflow.run OVERRIDING SYSTEM VALUE VALUES (2, 'load', '2025-11-02', 1, 'READY', 'etl', 'etl', 45, NULL, false, '[["raw","2025-11-02",1]]', '2025-11-16 11:08:55.12559+00', '2025-11-16 11:08:55.139727+00', 'READY', NULL, 0, '/logs/load/2025-11-02-2.log');
INSERT INTO dataflow.run OVERRIDING SYSTEM VALUE VALUES (3, 'load', '2025-11-02', 2, 'READY', 'etl', 'etl', 45, NULL, false, '[["raw","2025-11-02",1]]', '2025-11-16 11:08:55.153018+00', '2025-11-16 11:08:55.159446+00', 'READY', NULL, 0, '/logs/load/2025-11-02-3.log');
INSERT INTO dataflow.run OVERRIDING SYSTEM VALUE VALUES (4, 'load', '2025-11-03', 1, 'FAILED', 'etl', 'etl', 45, NULL, false, '[["raw","2025-11-03",1]]', '2025-11-16 11:08:55.161615+00', '2025-11-16 11:08:55.173408+00', 'JOB_FAILED', 'exit code 3', 3, '/logs/load/2025-11-03-4.log');
INSERT INTO dataflow.run OVERRIDING SYSTEM VALUE VALUES (5, 'load', '2025-11-06', 1, 'REFUSED', 'etl', 'etl', 45, NULL, false, '[["raw","2025-11-06",1]]', '2025-11-16 11:08:55.182442+00', '2025-11-16 11:08:55.186752+00', 'INVALID_PATH', 'outside the roots', NULL, NULL);
INSERT INTO dataflow.run OVERRIDING SYSTEM VALUE VALUES (6, 'copy', '1', 1, 'READY', '', 'etl', 30, NULL, false, '[["seen","1",1]]', '2025-11-16 11:08:55.197821+00', '2025-11-16 11:08:55.201541+00', 'READY', NULL, NULL, NULL);
INSERT INTO dataflow.run OVERRIDING SYSTEM VALUE VALUES (7, 'copy', '7', 1, 'READY', '', 'etl', 30, NULL, true, '[["seen","7",0]]', '2025-11-16 11:08:55.209845+00', '2025-11-16 11:08:55.215612+00', 'READY', NULL, 0, NULL);
INSERT INTO dataflow.run OVERRIDING SYSTEM VALUE VALUES (8, 'load', '2025-11-05', 1, 'RUNNING', 'etl', 'etl', 45, 1763291146.5, false, '[["raw","2025-11-05",1]]', '2025-11-16 11:08:55.22615+00', NULL, NULL, NULL, NULL, '/logs/load/2025-11-05-8.log');
INSERT INTO dataflow.run OVERRIDING SYSTEM VALUE VALUES (9, 'split', '2', 1, 'READY', '', 'etl', 30, NULL, false, '[["other","2",1],["seen","2",1]]', '2026-11-19 22:45:07.738171+00', '2026-11-19 22:45:07.739779+00', 'READY', NULL, 0, NULL);
INSERT INTO dataflow.run OVERRIDING SYSTEM VALUE VALUES (10, 'split', '3', 1, 'FAILED', '', 'etl', 30, NULL, false, '[["other","3",1],["seen","3",1]]', '2026-11-19 22:45:07.741547+00', '2026-11-19 22:45:07.742203+00', 'JOB_FAILED', NULL, 1, NULL);
INSERT INTO dataflow.stale VALUES ('copied', '1', 1, 'seen', '1', 1);
SELECT pg_catalog.setval('dataflow.event_eventid_seq', 48, true);
SELECT pg_catalog.setval('dataflow.incident_incidentid_seq', 1, true);
SELECT pg_catalog.setval('dataflow.message_messageid_seq', 1, true);
SELECT pg_catalog.setval('dataflow.note_noteid_seq', 15, true);
SELECT pg_catalog.setval('dataflow.run_runid_seq', 10, true);
ALTER TABLE ONLY dataflow.candidate
    ADD CONSTRAINT candidate_pkey PRIMARY KEY (jobid, dataid);
ALTER TABLE ONLY dataflow.data_manifest
    ADD CONSTRAINT data_manifest_pkey PRIMARY KEY (datasetid, dataid, version);
ALTER TABLE ONLY dataflow.dataset
    ADD CONSTRAINT dataset_pkey PRIMARY KEY (datasetid);
ALTER TABLE ONLY dataflow.datastatus
    ADD CONSTRAINT datastatus_pkey PRIMARY KEY (datasetid, dataid, jobid, locktype);
ALTER TABLE dataflow.dataset
    ADD CONSTRAINT encryptedpass_is_encrypted CHECK (((COALESCE(encryptedpass, ''::text) = ''::text) OR ((encryptedpass ~ '^odf[12]:[A-Za-z0-9_-]+={0,2}$'::text) AND ((length(encryptedpass) >= 69) AND (length(encryptedpass) <= 16384))) OR ((encryptedpass ~ '^[A-Za-z0-9+/]+={0,2}$'::text) AND ((length(encryptedpass) >= 40) AND (length(encryptedpass) <= 16384)) AND (((length(encryptedpass) % 4) = 0) OR (encryptedpass !~ '='::text))))) NOT VALID;
ALTER TABLE ONLY dataflow.event
    ADD CONSTRAINT event_pkey PRIMARY KEY (eventid);
ALTER TABLE ONLY dataflow.incident_chunk
    ADD CONSTRAINT incident_chunk_pkey PRIMARY KEY (kind, datasetid, dataid);
ALTER TABLE ONLY dataflow.incident
    ADD CONSTRAINT incident_pkey PRIMARY KEY (incidentid);
ALTER TABLE ONLY dataflow.jobrule
    ADD CONSTRAINT jobrule_pkey PRIMARY KEY (jobid);
ALTER TABLE ONLY dataflow.log_tail
    ADD CONSTRAINT log_tail_pkey PRIMARY KEY (runid);
ALTER TABLE ONLY dataflow.made_from
    ADD CONSTRAINT made_from_pkey PRIMARY KEY (in_datasetid, in_dataid, datasetid, dataid, version);
ALTER TABLE ONLY dataflow.message
    ADD CONSTRAINT message_incidentid_target_what_number_key UNIQUE (incidentid, target, what, number);
ALTER TABLE ONLY dataflow.message
    ADD CONSTRAINT message_pkey PRIMARY KEY (messageid);
ALTER TABLE ONLY dataflow.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (name);
ALTER TABLE ONLY dataflow.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (number);
ALTER TABLE ONLY dataflow.note
    ADD CONSTRAINT note_pkey PRIMARY KEY (noteid);
ALTER TABLE ONLY dataflow.noticed
    ADD CONSTRAINT noticed_pkey PRIMARY KEY (name);
ALTER TABLE ONLY dataflow.pause
    ADD CONSTRAINT pause_pkey PRIMARY KEY (jobid);
ALTER TABLE ONLY dataflow.pool
    ADD CONSTRAINT pool_pkey PRIMARY KEY (poolid);
ALTER TABLE ONLY dataflow.recalled
    ADD CONSTRAINT recalled_pkey PRIMARY KEY (datasetid, dataid, version);
ALTER TABLE ONLY dataflow.remake
    ADD CONSTRAINT remake_pkey PRIMARY KEY (datasetid, dataid);
ALTER TABLE ONLY dataflow.run
    ADD CONSTRAINT run_jobid_dataid_epoch_key UNIQUE (jobid, dataid, epoch);
ALTER TABLE ONLY dataflow.run
    ADD CONSTRAINT run_pkey PRIMARY KEY (runid);
ALTER TABLE ONLY dataflow.stale
    ADD CONSTRAINT stale_pkey PRIMARY KEY (datasetid, dataid, in_datasetid, in_dataid);
CREATE INDEX candidates_deferred ON dataflow.candidate USING btree (not_before) WHERE (state = 'DEFERRED'::text);
CREATE INDEX candidates_in_order ON dataflow.candidate USING btree (jobid, rank, sort_key) WHERE (state = 'CLAIMABLE'::text);
CREATE INDEX chunks_in_order ON dataflow.datastatus USING btree (datasetid, sort_key, dataid, status) WHERE (locktype <> 'IN'::text);
CREATE INDEX chunks_not_settled ON dataflow.datastatus USING btree (status, datasetid, sort_key) WHERE ((locktype = 'OUT'::text) AND (status <> 'READY'::text));
CREATE INDEX chunks_of_incident ON dataflow.incident_chunk USING btree (incidentid);
CREATE INDEX event_of_chunk ON dataflow.event USING btree (datasetid, dataid, eventid);
CREATE INDEX events_of_kind ON dataflow.event USING btree (kind, eventid) WHERE ((kind <> 'claimed'::text) AND (kind <> 'admitted'::text) AND (kind <> 'published'::text) AND (kind <> 'announced'::text));
CREATE UNIQUE INDEX incident_open ON dataflow.incident USING btree (kind, cause) WHERE (closed IS NULL);
CREATE UNIQUE INDEX job_item ON dataflow.job USING btree (jobid, itemtype, COALESCE(datasetid, ''::text));
CREATE INDEX job_of_dataset ON dataflow.job USING btree (datasetid, itemtype);
CREATE INDEX leases ON dataflow.run USING btree (lease_until) WHERE (status = 'RUNNING'::text);
CREATE INDEX manifest_fingerprint ON dataflow.data_manifest USING btree (datasetid, fingerprint) WHERE (fingerprint IS NOT NULL);
CREATE INDEX messages_to_send ON dataflow.message USING btree (target, messageid) WHERE (ended IS NULL);
CREATE UNIQUE INDEX one_out_row_per_chunk ON dataflow.datastatus USING btree (datasetid, dataid) WHERE (locktype <> 'IN'::text);
CREATE UNIQUE INDEX one_producer ON dataflow.job USING btree (datasetid) WHERE (itemtype = 'OUT'::text);
CREATE INDEX running_in_pool ON dataflow.run USING btree (pool) WHERE ((status = 'RUNNING'::text) AND (pool <> ''::text));
CREATE INDEX runs_remarked ON dataflow.run USING btree (runid) WHERE ((status = 'READY'::text) AND (detail IS NOT NULL));
CREATE INDEX stale_by_input ON dataflow.stale USING btree (in_datasetid, in_dataid);
CREATE INDEX unfit_notes ON dataflow.event USING btree (eventid) WHERE (kind = 'unfit note'::text);
CREATE TRIGGER event_is_append_only BEFORE DELETE OR UPDATE ON dataflow.event FOR EACH ROW EXECUTE FUNCTION dataflow.event_is_append_only();
CREATE TRIGGER event_is_never_emptied BEFORE TRUNCATE ON dataflow.event FOR EACH STATEMENT EXECUTE FUNCTION dataflow.event_is_append_only();
CREATE TRIGGER event_names_its_session BEFORE INSERT ON dataflow.event FOR EACH ROW WHEN ((new.session IS DISTINCT FROM SESSION_USER)) EXECUTE FUNCTION dataflow.session_of_writer();
CREATE TRIGGER note_dataset AFTER INSERT OR DELETE OR UPDATE ON dataflow.dataset FOR EACH ROW EXECUTE FUNCTION dataflow.note_definition();
CREATE TRIGGER note_delete AFTER DELETE ON dataflow.datastatus FOR EACH ROW WHEN ((old.seal >= 0)) EXECUTE FUNCTION dataflow.note_chunk();
CREATE TRIGGER note_insert AFTER INSERT ON dataflow.datastatus FOR EACH ROW WHEN ((new.seal = 0)) EXECUTE FUNCTION dataflow.note_chunk();
CREATE TRIGGER note_job AFTER INSERT OR DELETE OR UPDATE ON dataflow.job FOR EACH ROW EXECUTE FUNCTION dataflow.note_definition();
CREATE TRIGGER note_jobrule AFTER INSERT OR DELETE OR UPDATE ON dataflow.jobrule FOR EACH ROW EXECUTE FUNCTION dataflow.note_definition();
CREATE TRIGGER note_names_its_session BEFORE INSERT OR UPDATE ON dataflow.note FOR EACH ROW WHEN (((new.who IS NOT NULL) AND (new.who IS DISTINCT FROM SESSION_USER))) EXECUTE FUNCTION dataflow.note_by_session();
CREATE TRIGGER note_pause AFTER INSERT OR DELETE OR UPDATE ON dataflow.pause FOR EACH ROW EXECUTE FUNCTION dataflow.note_definition();
CREATE TRIGGER note_pool AFTER INSERT OR DELETE OR UPDATE ON dataflow.pool FOR EACH ROW EXECUTE FUNCTION dataflow.note_definition();
CREATE TRIGGER note_update AFTER UPDATE ON dataflow.datastatus FOR EACH ROW WHEN ((new.seal = old.seal)) EXECUTE FUNCTION dataflow.note_chunk();
CREATE TRIGGER status_words_on_insert BEFORE INSERT ON dataflow.datastatus FOR EACH ROW WHEN ((new.seal = 0)) EXECUTE FUNCTION dataflow.status_in_canonical_words();
CREATE TRIGGER status_words_on_update BEFORE UPDATE ON dataflow.datastatus FOR EACH ROW WHEN ((new.seal = old.seal)) EXECUTE FUNCTION dataflow.status_in_canonical_words();
ALTER TABLE ONLY dataflow.datastatus
    ADD CONSTRAINT datastatus_datasetid_fkey FOREIGN KEY (datasetid) REFERENCES dataflow.dataset(datasetid);
ALTER TABLE ONLY dataflow.job
    ADD CONSTRAINT job_datasetid_fkey FOREIGN KEY (datasetid) REFERENCES dataflow.dataset(datasetid);
REVOKE ALL ON FUNCTION dataflow.note_chunk() FROM PUBLIC;
REVOKE ALL ON FUNCTION dataflow.note_definition() FROM PUBLIC;
