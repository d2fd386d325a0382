-- Queries that are the same on both databases. Parameters are written :name.

-- Definitions -----------------------------------------------------------------------------------------------------

-- name: revision
-- The revision, which every change of a definition increments.
select value from meta where name = 'revision'

-- name: datasets
-- All datasets.
select datasetid, kind, hostname, database, schemaname, tablename, username, encryptedpass, location, format, partition, checks, options
from dataset order by datasetid

-- name: job_items
-- All items of all jobs: inputs with their mappings, outputs, environment.
select jobid, itemtype, datasetid, itemvalue from job order by jobid, itemtype, datasetid

-- name: job_rules
-- All job rules.
select jobid, retries, backoff, backoff_max, retry_on, lease, timeout, pool, options from jobrule order by jobid

-- name: pools
-- All pools.
select poolid, slots, options from pool order by poolid

-- name: pauses
-- Paused jobs.
select jobid, who, why, since from pause order by jobid

-- name: pause_put
-- Pause a job.
insert into pause (jobid, who, why, since) values (:jobid, :who, :why, now())
on conflict (jobid) do update set who = excluded.who, why = excluded.why, since = excluded.since

-- name: pause_drop
-- Resume a job.
delete from pause where jobid = :jobid

-- name: log_tail_put
-- Store the last lines of a log.
insert into log_tail (runid, tail) values (:runid, :tail) on conflict (runid) do nothing

-- name: log_tail
-- The last lines of a log.
select tail from log_tail where runid = :runid

-- name: dataset_put
-- Insert or update one dataset.
insert into dataset (datasetid, kind, hostname, database, schemaname, tablename, username, encryptedpass, location, format, partition, checks, options)
values (:datasetid, :kind, :hostname, :database, :schemaname, :tablename, :username, :encryptedpass, :location, :format, :partition, :checks, :options)
on conflict (datasetid) do update set
    kind = excluded.kind, hostname = excluded.hostname, database = excluded.database, schemaname = excluded.schemaname,
    tablename = excluded.tablename, username = excluded.username, encryptedpass = excluded.encryptedpass,
    location = excluded.location, format = excluded.format, partition = excluded.partition, checks = excluded.checks,
    options = excluded.options, modified = now()

-- name: readings_mark
-- Mark the IN rows of a removed dataset, so that the trigger writes no note.
update datastatus set seal = -1 where datasetid = :datasetid and locktype = 'IN'

-- name: readings_forget
-- Remove the marked rows; lineage stays in runs and manifests.
delete from datastatus where datasetid = :datasetid and locktype = 'IN' and seal = -1

-- name: dataset_drop
-- Remove one dataset.
delete from dataset where datasetid = :datasetid

-- name: pool_drop
-- Remove one pool.
delete from pool where poolid = :poolid

-- name: job_clear
-- Remove all items of one job.
delete from job where jobid = :jobid

-- name: job_item_put
-- Insert one item of a job.
insert into job (jobid, itemtype, datasetid, itemvalue, modified) values (:jobid, :itemtype, :datasetid, :itemvalue, now())

-- name: job_rule_put
-- Insert or update the rules of one job.
insert into jobrule (jobid, retries, backoff, backoff_max, retry_on, lease, timeout, pool, options)
values (:jobid, :retries, :backoff, :backoff_max, :retry_on, :lease, :timeout, :pool, :options)
on conflict (jobid) do update set
    retries = excluded.retries, backoff = excluded.backoff, backoff_max = excluded.backoff_max, retry_on = excluded.retry_on,
    lease = excluded.lease, timeout = excluded.timeout, pool = excluded.pool, options = excluded.options, modified = now()

-- name: job_rule_drop
-- Remove the rules of one job.
delete from jobrule where jobid = :jobid

-- name: pool_put
-- Insert or update one pool.
insert into pool (poolid, slots, options) values (:poolid, :slots, :options)
on conflict (poolid) do update set slots = excluded.slots, options = excluded.options, modified = now()

-- name: candidates_of_job_drop
-- Remove the candidates of one job.
delete from candidate where jobid = :jobid

-- name: meta_get
-- One value about the store.
select value from meta where name = :name

-- name: meta_put
-- Set one value about the store.
insert into meta (name, value) values (:name, :value) on conflict (name) do update set value = excluded.value

-- name: revision_next
-- Increment the revision, so that all processes reload the definitions.
update meta set value = cast(cast(value as bigint) + 1 as text) where name = 'revision'

-- name: schema_pinned
-- The schema of the first version of a dataset.
select schema from pinned_schema where datasetid = :datasetid

-- name: schema_pin
-- Keep the schema of the first version of a dataset.
insert into pinned_schema (datasetid, schema) values (:datasetid, :schema) on conflict (datasetid) do nothing

-- name: schema_unpin
-- Forget that schema.
delete from pinned_schema where datasetid = :datasetid

-- name: broken_jobs
-- Jobs that are recorded as broken.
select jobid from broken_job

-- name: broken_job_put
-- Record a job as broken.
insert into broken_job (jobid) values (:jobid) on conflict (jobid) do nothing

-- name: broken_job_drop
-- Record a job as repaired.
delete from broken_job where jobid = :jobid

-- name: applied_jobs
-- The jobs that a project applied last.
select jobid from applied_job where project = :project

-- name: applied_job_put
-- Record that a project applied a job.
insert into applied_job (project, jobid) values (:project, :jobid)

-- name: applied_job_drop
-- Record that a project no longer applies a job.
delete from applied_job where project = :project and jobid = :jobid

-- name: lease_clock
-- The lease clock.
select lease_now() as now

-- Migrations ------------------------------------------------------------------------------------------------------

-- name: migrations
-- The applied migrations, in order.
select number, name, checksum from migration order by number

-- name: migration_put
-- Record an applied migration.
insert into migration (number, name, checksum, applied) values (:number, :name, :checksum, now())

-- Candidates ------------------------------------------------------------------------------------------------------

-- name: ready_chunks_page
-- READY chunks of a dataset after a position, to derive candidates from.
select dataid, sort_key from datastatus
where datasetid = :datasetid and locktype = 'OUT' and status = 'READY' and (sort_key, dataid) > (:after_key, :after_dataid)
order by sort_key, dataid limit :n

-- name: resubmitted_chunks
-- RESUBMIT chunks of a dataset, which are candidates whatever their inputs are.
select dataid from datastatus where datasetid = :datasetid and locktype = 'OUT' and status = 'RESUBMIT' and status <> 'READY' order by sort_key

-- name: chunks_in_order
-- Every chunk of a dataset with its status, in order: for mapping all.
select dataid, status from datastatus where datasetid = :datasetid and locktype = 'OUT' order by sort_key, dataid

-- name: newest_ready
-- The newest READY chunk up to a position: for mapping latest.
select dataid from datastatus
where datasetid = :datasetid and locktype = 'OUT' and status = 'READY' and sort_key <= :until_key
order by sort_key desc, dataid desc limit 1

-- name: unfinished_of_job
-- Whether a job has claimable, deferred, RUNNING, RESUBMIT, FAILED or set-aside chunks.
select exists (select 1 from candidate where jobid = :jobid and state <> 'WAITING')
    or exists (select 1 from run where jobid = :jobid and status = 'RUNNING')
    or exists (select 1 from job o
               join datastatus s on s.datasetid = o.datasetid and s.locktype = 'OUT' and s.status <> 'READY'
                                and s.status in ('RUNNING', 'FAILED', 'RESUBMIT', 'HOLD', 'PENDING')
               where o.jobid = :jobid and o.itemtype = 'OUT') as unfinished

-- name: candidate_dataids
-- All candidates of a job.
select dataid from candidate where jobid = :jobid

-- name: candidates_due
-- Make due deferred candidates claimable.
update candidate set state = 'CLAIMABLE', not_before = 0 where state = 'DEFERRED' and not_before <= lease_now()

-- name: note_put
-- Write a note for the next fold.
insert into note (datasetid, dataid, locktype, after, who) values (:datasetid, :dataid, 'OUT', :after, null)

-- name: notes_take
-- Take the oldest notes; waits for concurrent folds, so that their candidates are visible.
delete from note where noteid <= (select max(noteid) from (select noteid from note order by noteid limit :n) oldest)
returning noteid, at, datasetid, dataid, jobid, locktype, before, after, who

-- name: changed_since
-- The status before each later change of a row: unfolded changes, and changes that this program made since without folding.
select before from note where datasetid = :datasetid and dataid = :dataid and locktype = :locktype
union all
select before from event where datasetid = :datasetid and dataid = :dataid and kind in ('announced', 'resubmitted', 'kept') and at >= :at

-- Runs ------------------------------------------------------------------------------------------------------------

-- name: slots_taken
-- The number of running chunks in a pool.
select count(*) as taken from run where pool = :pool and pool <> '' and status = 'RUNNING'

-- name: readers_running
-- The number of running chunks that read a dataset.
select count(*) as taken from run r
where r.status = 'RUNNING' and exists (select 1 from job i where i.datasetid = :datasetid and i.itemtype = 'IN' and i.jobid = r.jobid)

-- name: jobs_claimable
-- Jobs with claimable candidates, ignoring limits; and '' while changes have to be folded in.
select '' as jobid where exists (select 1 from note)
             or exists (select 1 from run where status = 'RUNNING' and lease_until < lease_now())
             or exists (select 1 from candidate where state = 'DEFERRED' and not_before <= lease_now())
union all
select j.jobid from (select distinct jobid from job where itemtype = 'OUT') j
where exists (select 1 from candidate c where c.jobid = j.jobid and c.state = 'CLAIMABLE')

-- name: deferred_counts
-- The number of deferred candidates by job.
select jobid, count(*) as n from candidate where state = 'DEFERRED' group by jobid

-- name: candidate_drop
-- Remove one candidate.
delete from candidate where jobid = :jobid and dataid = :dataid

-- name: candidate_put
-- Insert or update one candidate.
insert into candidate (jobid, dataid, sort_key, rank, state, not_before, inputs)
values (:jobid, :dataid, :sort_key, :rank, :state, :not_before, :inputs)
on conflict (jobid, dataid) do update set sort_key = excluded.sort_key, rank = excluded.rank, state = excluded.state,
    not_before = excluded.not_before, inputs = excluded.inputs

-- name: outputs_of_run
-- The datasets whose chunks a run holds, whatever its job writes now.
select datasetid from datastatus where dataid = :dataid and locktype = 'OUT' and runid = :runid order by datasetid

-- name: outputs_claimed
-- The datasets whose chunks a run claimed, from the history, whatever happened to the rows and the job since.
select d.datasetid from dataset d
where (select count(*) from event e where e.datasetid = d.datasetid and e.dataid = :dataid and e.kind = 'claimed' and e.runid = :runid) > 0
order by d.datasetid

-- name: inputs_of_run
-- What a run reads, in the order of its job's inputs.
select datasetid, dataid, version from run_input where runid = :runid order by nth

-- name: contents_of_run
-- The known contents of what a run reads, each with the dataid that has it.
select i.datasetid, m.fingerprint, i.dataid from run_input i
join data_manifest m on m.datasetid = i.datasetid and m.dataid = i.dataid and m.version = i.version
where i.runid = :runid and m.fingerprint is not null order by i.nth

-- name: run_row
-- One run.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where runid = :runid

-- Reading ---------------------------------------------------------------------------------------------------------

-- name: chunk
-- One chunk as a product.
select datasetid, dataid, jobid, status, modified, epoch, version, runid, tries, held, lowerbound as lower, upperbound as upper, sort_key
from datastatus where datasetid = :datasetid and dataid = :dataid and locktype = 'OUT'

-- name: chunks_page
-- Chunks of a dataset after a position, in order.
select datasetid, dataid, jobid, status, modified, epoch, version, runid, tries, held, lowerbound as lower, upperbound as upper, sort_key
from datastatus
where datasetid = :datasetid and locktype = 'OUT' and (sort_key, dataid) > (:after_key, :after_dataid)
order by sort_key, dataid limit :n

-- name: chunks_with_status_page
-- Chunks of a dataset with one status, after a position, in order.
select datasetid, dataid, jobid, status, modified, epoch, version, runid, tries, held, lowerbound as lower, upperbound as upper, sort_key
from datastatus
where datasetid = :datasetid and locktype = 'OUT' and status = :status and (sort_key, dataid) > (:after_key, :after_dataid)
order by sort_key, dataid limit :n

-- name: status_counts
-- The number of chunks by dataset and status.
select datasetid, status, count(*) as n from datastatus where locktype = 'OUT' group by datasetid, status order by datasetid, status

-- name: inputs_of_job
-- The IN row of one job for a chunk.
select datasetid, dataid, jobid, status, modified, epoch, version, runid from datastatus
where datasetid = :datasetid and dataid = :dataid and jobid = :jobid and locktype = 'IN'

-- name: runs_page
-- Runs, newest first, before a given one.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where runid < :before order by runid desc limit :n

-- name: runs_of_job_page
-- Runs of one job, newest first, before a given one.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where runid in (select r.runid from run r where r.jobid = :jobid and r.runid < :before order by r.runid desc limit :n)
order by runid desc

-- name: runs_of_dataid
-- All runs of (jobid, dataid), newest first.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where jobid = :jobid and dataid = :dataid order by epoch desc

-- name: runs_running
-- Running runs; + 0 prevents SQLite from scanning all runs in order.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where status = 'RUNNING' order by runid + 0

-- name: runs_over
-- Running runs with an expired lease.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where status = 'RUNNING' and lease_until < lease_now() order by runid

-- name: run_is_over
-- Whether the lease of one run expired.
select lease_until < lease_now() as is_over from run where runid = :runid

-- name: unfit_notes
-- The last notes that did not match a change, newest first.
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event where kind = 'unfit note' order by eventid desc limit :n

-- name: events_page
-- Events, oldest first, after a given one.
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event where eventid > :after order by eventid limit :n

-- name: refusals
-- Chunks whose last delivery or run was refused because of the data or its definition, newest first, among the last events.
-- A later accepted delivery or an admitted run ends a refusal. Chunks that wait for inputs again, or may not run, are left out.
-- Filtered by job and dataid where given. The other conditions on kind match the partial index.
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event e
where eventid > (select coalesce(max(eventid), 0) from event) - :look_back and kind = 'refused'
  and kind <> 'claimed' and kind <> 'admitted' and kind <> 'published' and kind <> 'announced'
  and (:jobid = '' or jobid = :jobid) and (:dataid = '' or dataid = :dataid)
  and (jobid = 'outside'
       and not exists (select 1 from event later
                       where later.datasetid = e.datasetid and later.dataid = e.dataid and later.eventid > e.eventid)
    or jobid <> 'outside' and after in ('WRONG_DATA', 'INVALID_PATH', 'NOT_VALIDATED', 'UNTRUSTED_DEFINITION')
       and exists (select 1 from candidate c where c.jobid = e.jobid and c.dataid = e.dataid and c.state <> 'WAITING')
       and not exists (select 1 from event later
                       where later.datasetid = e.datasetid and later.dataid = e.dataid and later.eventid > e.eventid
                         and (later.kind in ('admitted', 'published', 'failed', 'rescued', 'lost', 'cancelled')
                              or later.kind = 'refused'
                                 and later.after in ('WRONG_DATA', 'INVALID_PATH', 'NOT_VALIDATED', 'UNTRUSTED_DEFINITION'))))
order by eventid desc limit :n

-- name: runs_remarked
-- READY chunks that their run published with a remark (rejected rows, a failed check that only warns), newest first, among the last runs.
select s.datasetid, s.dataid, s.sort_key, r.detail as remark
from run r
cross join datastatus s
where r.runid > (select coalesce(max(runid), 0) from run) - :look_back and r.status = 'READY' and r.detail is not null
  and s.dataid = r.dataid and s.locktype = 'OUT' and s.runid = r.runid and s.status = 'READY'
order by r.runid desc limit :n

-- name: events_of_chunk_page
-- Events of one chunk, oldest first, after a given one.
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event where datasetid = :datasetid and dataid = :dataid and eventid > :after order by eventid limit :n

-- name: manifest
-- The manifest of one version of a chunk.
select datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, body, published
from data_manifest where datasetid = :datasetid and dataid = :dataid and version = :version

-- name: locations_in_use
-- The locations of the current versions of a dataset's chunks, and of versions that are being read.
select m.location from datastatus s
join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
where s.datasetid = :datasetid and (s.locktype = 'OUT' or s.status = 'RUNNING') and m.location <> ''

-- name: manifests_of_chunk
-- All manifests of a chunk, newest first.
select datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, body, published
from data_manifest where datasetid = :datasetid and dataid = :dataid order by version desc

-- name: locations_absolute_page
-- Versions with absolute locations, after a given one.
select datasetid, dataid, version, location from data_manifest
where (datasetid, dataid, version) > (:datasetid, :dataid, :version) and (location like '/%' or location like '%://%')
order by datasetid, dataid, version limit :n

-- name: published_page
-- The manifests of the current versions of a dataset's READY chunks, after a position, in order.
select m.datasetid, m.dataid, m.version, m.jobid, m.runid, m.location, m.format, m.bytes, m.rows, m.span_lower, m.span_upper, m.fingerprint, m.body,
       m.published, s.sort_key
from datastatus s
join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
where s.datasetid = :datasetid and s.locktype = 'OUT' and s.status = 'READY' and (s.sort_key, s.dataid) > (:after_key, :after_dataid)
order by s.sort_key, s.dataid limit :n

-- name: dataids_with_versions
-- Chunks of a dataset with more than this number of versions whose files were not removed.
select m.dataid from (
    select dataid, count(*) as versions from data_manifest where datasetid = :datasetid group by dataid having count(*) > :n
) m where m.versions - (select count(*) from event e where e.datasetid = :datasetid and e.dataid = m.dataid and e.kind = 'vacuumed') > :n
order by m.dataid

-- name: vacuumed_versions
-- The versions of a chunk whose files were removed.
select epoch as version from event where datasetid = :datasetid and dataid = :dataid and kind = 'vacuumed'

-- name: attempts_unpublished_page
-- Runs that ended without publishing, oldest first, after a given one; without refused runs, which wrote nothing.
select runid, jobid, dataid, epoch, started from run where runid > :after and status in ('FAILED', 'LOST') order by runid limit :n

-- name: newest_run_before
-- The newest run that began before a moment.
select runid from run where started < :at order by runid desc limit 1

-- name: same_content
-- Another current chunk of a dataset with the same content.
-- RESUBMIT chunks do not count, so that two swapped days can be corrected.
select m.dataid from data_manifest m
join datastatus s on s.datasetid = m.datasetid and s.dataid = m.dataid and s.locktype = 'OUT' and s.version = m.version
where m.datasetid = :datasetid and m.fingerprint = :fingerprint and m.dataid <> :dataid
  and s.status in ('READY', 'HOLD', 'PENDING') order by m.dataid limit 1

-- name: same_content_from
-- The same for chunks made from a given input content; || '' prevents the planner from starting at the content itself.
select m.datasetid, m.dataid, m.version from run_input f
join data_manifest m on m.runid = f.runid
join datastatus s on s.datasetid = m.datasetid and s.dataid = m.dataid and s.locktype = 'OUT' and s.version = m.version
where (f.datasetid, f.dataid, f.version) in (
    select i.datasetid, i.dataid, i.version from data_manifest i where i.datasetid = :in_datasetid and i.fingerprint = :in_fingerprint)
  and m.datasetid || '' = :datasetid and m.dataid <> :dataid and m.fingerprint || '' = :fingerprint
  and s.status in ('READY', 'HOLD', 'PENDING') order by m.dataid limit :n

-- name: rows_before
-- The row counts of the published chunks before a position, newest first.
select m.rows from datastatus s
join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
where s.datasetid = :datasetid and s.locktype = 'OUT' and s.status = 'READY' and s.sort_key < :before_key and m.rows is not null
order by s.sort_key desc limit :n

-- name: candidate_counts
-- The number of candidates by job and state.
select jobid, state, count(*) as n from candidate group by jobid, state order by jobid, state

-- name: candidate_row
-- One candidate.
select state, rank, not_before from candidate where jobid = :jobid and dataid = :dataid

-- name: candidates_page
-- The next candidates of a job, in claim order.
select dataid from candidate
where jobid = :jobid and state = 'CLAIMABLE' order by rank, sort_key limit :n

-- Bounded reads: the cost does not depend on the number of chunks ---------------------------------------------------

-- name: unsettled_page
-- Chunks of a dataset with one status other than READY, after a position, in order.
-- The second condition on status matches the partial index; || '' prevents SQLite from scanning the whole dataset in order.
select datasetid, dataid, jobid, status, modified, epoch, version, runid, tries, held, lowerbound as lower, upperbound as upper, sort_key
from datastatus
where datasetid = :datasetid and locktype = 'OUT' and status = :status and status <> 'READY' and (sort_key, dataid) > (:after_key, :after_dataid)
order by sort_key, dataid || '' limit :n

-- name: chunks_between
-- Chunks of a dataset between two positions, both included.
select dataid, sort_key, status from datastatus
where datasetid = :datasetid and locktype = 'OUT' and sort_key >= :from_key and sort_key <= :to_key
order by sort_key, dataid limit :n

-- name: dataids_newest
-- The dataids of a dataset between two positions, both included, last ones first.
select dataid from datastatus
where datasetid = :datasetid and locktype = 'OUT' and sort_key >= :from_key and sort_key <= :to_key
order by sort_key desc, dataid desc limit :n

-- name: chunks_of_dataid
-- The chunks with one dataid, of all datasets.
select s.datasetid, s.dataid, s.status from dataset d join datastatus s on s.datasetid = d.datasetid and s.dataid = :dataid and s.locktype = 'OUT'
order by d.datasetid limit :n

-- name: readers_of_chunk
-- The IN rows of one chunk, of all jobs.
select datasetid, dataid, jobid, status, modified, epoch, version, runid from datastatus
where datasetid = :datasetid and dataid = :dataid and locktype = 'IN' order by jobid

-- name: claimable_count
-- The number of claimable candidates of a job, counted up to :most.
select count(*) as n from (select 1 from candidate where jobid = :jobid and state = 'CLAIMABLE' limit :most) c

-- name: candidates_sample
-- Some candidates of a job in any state.
select dataid, state, inputs from candidate where jobid = :jobid order by dataid limit :n

-- name: candidates_first
-- The first candidate of a job in order, in any state, among at most :most.
select rank, sort_key, dataid from (select rank, sort_key, dataid from candidate where jobid = :jobid order by dataid limit :most) c
order by rank, sort_key limit 1

-- name: candidates_deferred_page
-- The deferred candidates of a job, next one first; || matches the index of deferred candidates.
select dataid, not_before from candidate where state = 'DEFERRED' and jobid || '' = :jobid order by not_before limit :n

-- name: unread_count
-- The number of READY input chunks that a job has no IN row for, even if its definition is broken.
select count(*) as n from (
    select 1 from job i
    join datastatus s on s.datasetid = i.datasetid and s.locktype = 'OUT' and s.status = 'READY'
    where i.jobid = :jobid and i.itemtype = 'IN' and not exists (
        select 1 from datastatus r
        where r.datasetid = s.datasetid and r.dataid = s.dataid and r.jobid = i.jobid and r.locktype = 'IN')
    limit :most) unread

-- name: changes_wait
-- Whether changes have to be folded in, or deferred candidates are due; and the revision.
select
    exists (select 1 from note) or exists (select 1 from candidate where state = 'DEFERRED' and not_before <= lease_now()) as wait,
    (select value from meta where name = 'revision') as revision

-- name: newest_run
-- The newest run.
select max(runid) as runid from run

-- name: runs_failed_page
-- Unsuccessful runs, newest first, between two given ones.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where runid < :before and runid > :floor and status not in ('READY', 'RUNNING') and coalesce(outcome, '') <> 'GIVEN_BACK'
order by runid desc limit :n

-- name: events_of_chunk_newest
-- The last events of one chunk, newest first.
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event where datasetid = :datasetid and dataid = :dataid order by eventid desc limit :n

-- name: ends_by_clock
-- The first and last chunk of a dataset between two dataids that were announced by clock.
select (select e.dataid from event e where e.datasetid = :datasetid and e.dataid >= :first and e.dataid <= :last
            and length(e.dataid) = length(:first) and e.kind = 'announced' and e.who = 'clock'
        order by e.dataid limit 1) as first_dataid,
       (select e.dataid from event e where e.datasetid = :datasetid and e.dataid >= :first and e.dataid <= :last
            and length(e.dataid) = length(:first) and e.kind = 'announced' and e.who = 'clock'
        order by e.dataid desc limit 1) as last_dataid

-- name: runs_of_job_recent
-- Runs of one job, newest first, between two given ones; || prevents the planner from sorting all runs of the job.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where jobid || '' = :jobid and runid < :before and runid > :floor order by runid desc limit :n

-- Past states ------------------------------------------------------------------------------------------------------

-- name: newest_event
-- The newest event.
select max(eventid) as eventid from event

-- name: event_from
-- The first event of a range that was written when it happened: events of changes by SQL are written later.
select eventid as number, at from event where eventid >= :number and eventid <= :last and kind <> 'sql' order by eventid limit 1

-- name: run_from
-- The first run of a range.
select runid as number, started as at from run where runid >= :number and runid <= :last order by runid limit 1

-- name: events_of_chunk_until
-- The last events of one chunk up to a moment, newest first.
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event where datasetid = :datasetid and dataid = :dataid and at <= :at order by at desc, eventid desc limit :n

-- name: receipts_of_job_until
-- The last receipts of a job up to a moment, newest first, between two events; || keeps the scan at the end of the history.
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event where eventid > :floor and eventid <= :last and jobid || '' = :jobid and receipt is not null and at <= :at
order by eventid desc limit :n

-- name: runs_of_job_at
-- Runs of one job that were running at a moment, newest first, between two given ones; || prevents the planner from sorting all runs of the job.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where jobid || '' = :jobid and runid < :before and runid > :floor and started <= :at and (ended is null or ended > :at)
order by runid desc limit :n

-- name: refusals_until
-- Chunks whose last delivery or run up to a moment was refused because of the data or its definition, newest first, between two events.
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event e
where eventid > :floor and eventid <= :last and at <= :at and kind = 'refused'
  and (jobid = 'outside' or after in ('WRONG_DATA', 'INVALID_PATH', 'NOT_VALIDATED', 'UNTRUSTED_DEFINITION'))
  and not exists (select 1 from event later
                  where later.datasetid = e.datasetid and later.dataid = e.dataid and later.eventid > e.eventid and later.at <= :at
                    and (e.jobid = 'outside' or later.kind not in ('claimed', 'given back', 'refused')
                         or later.kind = 'refused'
                            and later.after in ('WRONG_DATA', 'INVALID_PATH', 'NOT_VALIDATED', 'UNTRUSTED_DEFINITION')))
order by eventid desc limit :n

-- name: chunks_gone_since
-- Chunks that were forgotten or deleted after a moment, by the last events; not distinct, to prevent a sort by another index.
select datasetid, dataid from event
where eventid > (select coalesce(max(eventid), 0) from event) - :look_back and after is null and kind in ('forgotten', 'sql')
  and dataid is not null and at > :at

-- Counts for monitoring ----------------------------------------------------------------------------------------------

-- name: unsettled_counts
-- The number of chunks by dataset and status other than READY, by the partial index.
select datasetid, status, count(*) as n from datastatus where locktype = 'OUT' and status <> 'READY' group by datasetid, status

-- name: unsettled_bounded
-- The number of chunks by dataset and status other than READY, by a loose index scan, counted up to :most.
with recursive w (status) as (values ('RUNNING'), ('FAILED'), ('RESUBMIT'), ('HOLD'), ('PENDING')),
found (status, datasetid) as (
    select w.status, (select min(d.datasetid) from datastatus d where d.locktype = 'OUT' and d.status <> 'READY' and d.status = w.status) from w
    union all
    select f.status, (select min(d.datasetid) from datastatus d
                      where d.locktype = 'OUT' and d.status <> 'READY' and d.status = f.status and d.datasetid > f.datasetid)
    from found f where f.datasetid is not null
)
select f.datasetid, f.status, (select count(*) from (select 1 from datastatus d
                                                     where d.locktype = 'OUT' and d.status <> 'READY' and d.status = f.status
                                                       and d.datasetid = f.datasetid limit :most) c) as n
from found f where f.datasetid is not null

-- name: datasets_with_chunks
-- Datasets with at least one chunk; the limit prevents PostgreSQL from joining all chunks.
select d.datasetid from dataset d where (select 1 from datastatus s where s.datasetid = d.datasetid and s.locktype = 'OUT' limit 1) is not null

-- name: claimable_counts
-- The number of claimable candidates by job, counted up to :most.
select j.jobid, (select count(*) from (select 1 from candidate c where c.jobid = j.jobid and c.state = 'CLAIMABLE' limit :most) c) as n
from (select distinct jobid from job where itemtype = 'OUT') j

-- name: running_counts
-- The number of running chunks by job and pool, and of those with an expired lease.
select jobid, pool, count(*) as n, sum(case when lease_until < lease_now() then 1 else 0 end) as expired
from run where status = 'RUNNING' group by jobid, pool

-- name: running_runids
-- The runids of running runs.
select runid from run where status = 'RUNNING'

-- name: refusal_counts
-- The number of refusals by name between two events.
select coalesce(after, '') as name, count(*) as n from event where eventid > :after and eventid <= :upto and kind = 'refused' group by coalesce(after, '')

-- name: message_counts
-- The number of messages by state.
select state as name, count(*) as n from message group by state

-- name: counter
-- The value of a counter.
select n from counter where name = :name

-- name: counter_add
-- Add to a counter.
insert into counter (name, n) values (:name, :n) on conflict (name) do update set n = counter.n + excluded.n

-- name: counter_put
-- Set a counter.
insert into counter (name, n) values (:name, :n) on conflict (name) do update set n = excluded.n

-- Recovery: chunks of all datasets that are not READY ----------------------------------------------------------------

-- name: chunks_unsettled
-- Chunks of all datasets that are not READY, with the outcome of their last run; the listed statuses match the partial index.
select s.datasetid, s.dataid, s.jobid, s.status, s.modified, s.runid, s.tries, s.sort_key, r.status as run_status, r.outcome, r.detail, r.owner,
       r.started, r.lease_until
from datastatus s left join run r on r.runid = s.runid
where s.locktype = 'OUT' and s.status <> 'READY' and s.status in ('RUNNING', 'FAILED', 'RESUBMIT', 'HOLD', 'PENDING')
order by s.status, s.datasetid, s.sort_key limit :n

-- name: candidates_deferred
-- The deferred candidates of all jobs, next one first.
select jobid, dataid, not_before from candidate where state = 'DEFERRED' order by not_before limit :n

-- name: clear_for_import_dataset
-- Remove the default datasets of a new store.
delete from dataset

-- name: clear_for_import_note
-- Remove notes that triggers wrote during an import.
delete from note

-- name: clear_for_import_meta
-- Remove the values of a new store before an import, except its clock offset and revision.
delete from meta where name not in ('clock', 'revision')

-- name: is_in_use
-- Whether a store is not new.
select exists (select 1 from job) or exists (select 1 from datastatus) or exists (select 1 from run) or exists (select 1 from event) as is_in_use

-- name: any_note
-- Whether changes have to be folded in.
select exists (select 1 from note) as any_note

-- name: stale_count
-- The number of stale marks, counted up to :most.
select count(*) as n from (select 1 from stale limit :most) c
