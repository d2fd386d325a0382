-- Notes: changes by SQL, until a fold takes them.

-- name: note_put
-- Write a note for the next fold.
insert into note (datasetid, dataid, locktype, after, who) values (:datasetid, :dataid, 'OUT', :after, null)

-- name: notes_take
-- Take the oldest notes; waits for concurrent folds, so that their candidates are visible.
delete from note where noteid <= (select max(noteid) from (select noteid from note order by noteid limit :n) oldest)
returning noteid, at, datasetid, dataid, jobid, locktype, before, after, who

-- name: notes_page
-- The oldest notes, for a look.
select noteid, at, datasetid, dataid, jobid, locktype, before, after, who from note order by noteid limit :n

-- name: notes_typed
-- The number of notes on statuses that were changed by SQL; a note on a definition may come from odf apply.
select count(*) as n from note where who is not null and dataid is not null

-- name: any_note
-- Whether changes have to be folded in.
select exists (select 1 from note) as any_note

-- name: changed_since
-- The status before each later change of a row: unfolded changes, and changes that this program made since without folding.
select before from note where datasetid = :datasetid and dataid = :dataid and locktype = :locktype
union all
select before from event where datasetid = :datasetid and dataid = :dataid and kind in ('announced', 'resubmitted', 'kept') and at >= :at

-- name: typed_given
-- Whether given chunks have changes that are not folded in yet.
select exists (select 1 from note n where n.locktype = 'OUT' and n.who is not null
               and (n.datasetid, n.dataid) in (select c.datasetid, c.dataid from {rows :chunks (datasetid, dataid)} c)) as typed

-- name: lock_folding (postgres)
-- Serialize folds, to avoid deadlocks.
select pg_advisory_xact_lock(727108)
