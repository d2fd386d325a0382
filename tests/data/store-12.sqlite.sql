-- A store as schema 12 left it, in SQL: what tests/contract/test_store_of_before.py opens. Made once, by the version that wrote it.
BEGIN TRANSACTION;
CREATE TABLE candidate (
    jobid      text not null,
    dataid     text not null,
    sort_key   text not null,
    rank       integer not null default 1,
    state      text not null check (state in ('CLAIMABLE', 'WAITING', 'DEFERRED')),
    not_before real not null default 0,
    inputs     text not null default '[]',
    primary key (jobid, dataid)
);
INSERT INTO "candidate" VALUES('sum','2025-11','2025-11',1,'WAITING',0.0,'[["clean","2025-11-01"],["clean","2025-11-02"],["clean","2025-11-03"],["clean","2025-11-04"],["clean","2025-11-05"],["clean","2025-11-06"],["clean","2025-11-07"],["clean","2025-11-08"],["clean","2025-11-09"],["clean","2025-11-10"],["clean","2025-11-11"],["clean","2025-11-12"],["clean","2025-11-13"],["clean","2025-11-14"],["clean","2025-11-15"],["clean","2025-11-16"],["clean","2025-11-17"],["clean","2025-11-18"],["clean","2025-11-19"],["clean","2025-11-20"],["clean","2025-11-21"],["clean","2025-11-22"],["clean","2025-11-23"],["clean","2025-11-24"],["clean","2025-11-25"],["clean","2025-11-26"],["clean","2025-11-27"],["clean","2025-11-28"],["clean","2025-11-29"],["clean","2025-11-30"]]');
INSERT INTO "candidate" VALUES('load','2025-11-06','2025-11-06',1,'CLAIMABLE',0.0,'[["raw","2025-11-06"]]');
INSERT INTO "candidate" VALUES('split','1','000000000000000001',1,'WAITING',0.0,'[["other","1"],["seen","1"]]');
INSERT INTO "candidate" VALUES('split','10','000000000000000010',1,'WAITING',0.0,'[["other","10"],["seen","10"]]');
INSERT INTO "candidate" VALUES('split','3','000000000000000003',0,'DEFERRED',1.79512831274928236005e+09,'[["other","3"],["seen","3"]]');
INSERT INTO "candidate" VALUES('copy','2','000000000000000002',1,'CLAIMABLE',0.0,'[["seen","2"]]');
INSERT INTO "candidate" VALUES('copy','3','000000000000000003',1,'CLAIMABLE',0.0,'[["seen","3"]]');
INSERT INTO "candidate" VALUES('copy','10','000000000000000010',1,'CLAIMABLE',0.0,'[["seen","10"]]');
CREATE TABLE data_manifest (
    datasetid   text not null,
    dataid      text not null,
    version     integer not null,
    jobid       text not null,
    runid       integer,
    location       text not null default '',
    format      text not null default '',
    bytes       integer,
    rows        integer,
    span_lower  text,
    span_upper  text,
    fingerprint text,
    passed      integer not null default 1,
    body        text not null default '{}',
    published   text not null default current_timestamp,
    primary key (datasetid, dataid, version)
);
INSERT INTO "data_manifest" VALUES('raw','2025-11-01',1,'outside',NULL,'/data/raw/2025-11-01.csv','csv',120,NULL,NULL,NULL,'raw 2025-11-01',1,'{"files":[["/data/raw/2025-11-01.csv",120,1762000000.5,"c0ffee"]]}','2025-11-16 11:08:55.089982');
INSERT INTO "data_manifest" VALUES('raw','2025-11-02',1,'outside',NULL,'/data/raw/2025-11-02.csv','csv',120,NULL,NULL,NULL,'raw 2025-11-02',1,'{"files":[["/data/raw/2025-11-02.csv",120,1762000000.5,"c0ffee"]]}','2025-11-16 11:08:55.089982');
INSERT INTO "data_manifest" VALUES('raw','2025-11-03',1,'outside',NULL,'/data/raw/2025-11-03.csv','csv',120,NULL,NULL,NULL,'raw 2025-11-03',1,'{"files":[["/data/raw/2025-11-03.csv",120,1762000000.5,"c0ffee"]]}','2025-11-16 11:08:55.089982');
INSERT INTO "data_manifest" VALUES('raw','2025-11-04',1,'outside',NULL,'/data/raw/2025-11-04.csv','csv',120,NULL,NULL,NULL,'raw 2025-11-04',1,'{"files":[["/data/raw/2025-11-04.csv",120,1762000000.5,"c0ffee"]]}','2025-11-16 11:08:55.089982');
INSERT INTO "data_manifest" VALUES('raw','2025-11-05',1,'outside',NULL,'/data/raw/2025-11-05.csv','csv',120,NULL,NULL,NULL,'raw 2025-11-05',1,'{"files":[["/data/raw/2025-11-05.csv",120,1762000000.5,"c0ffee"]]}','2025-11-16 11:08:55.089982');
INSERT INTO "data_manifest" VALUES('raw','2025-11-06',1,'outside',NULL,'/data/raw/2025-11-06.csv','csv',120,NULL,NULL,NULL,'raw 2025-11-06',1,'{"files":[["/data/raw/2025-11-06.csv",120,1762000000.5,"c0ffee"]]}','2025-11-16 11:08:55.089982');
INSERT INTO "data_manifest" VALUES('clean','2025-11-01',1,'load',1,'/data/clean/2025-11-01/v1','parquet',300,10,'2025-11-01','2025-11-01','10 2025-11-01',1,'{"files":[["part-0.parquet",300,1762000001.0,null]],"schema":"carrier STRING, delay INT","checks":[{"check":"not_null carrier","kind":"not_null","severity":"error","passed":true,"figures":{"nulls":0}},{"check":"rows","kind":"rows","severity":"error","passed":true,"figures":{"rows":10}}],"spark_app":"local-1","extra":{"writer":"opendataflow"},"inputs":[["raw","2025-11-01",1]]}','2025-11-16 11:08:55.122742');
INSERT INTO "data_manifest" VALUES('clean','2025-11-02',1,'load',2,'/data/clean/2025-11-02/v1','parquet',300,20,'2025-11-02','2025-11-02','20 2025-11-02',1,'{"files":[["part-0.parquet",300,1762000001.0,null]],"schema":"carrier STRING, delay INT","checks":[{"check":"not_null carrier","kind":"not_null","severity":"error","passed":true,"figures":{"nulls":0}},{"check":"rows","kind":"rows","severity":"error","passed":true,"figures":{"rows":20}}],"spark_app":"local-1","extra":{"writer":"opendataflow"},"inputs":[["raw","2025-11-02",1]]}','2025-11-16 11:08:55.139991');
INSERT INTO "data_manifest" VALUES('clean','2025-11-02',2,'load',3,'/data/clean/2025-11-02/v2','parquet',300,25,'2025-11-02','2025-11-02','25 2025-11-02',1,'{"files":[["part-0.parquet",300,1762000001.0,null]],"schema":"carrier STRING, delay INT","checks":[{"check":"not_null carrier","kind":"not_null","severity":"error","passed":true,"figures":{"nulls":0}},{"check":"rows","kind":"rows","severity":"error","passed":true,"figures":{"rows":25}}],"spark_app":"local-1","extra":{"writer":"opendataflow"},"inputs":[["raw","2025-11-02",1]]}','2025-11-16 11:08:55.159600');
INSERT INTO "data_manifest" VALUES('copied','1',1,'copy',6,'','',NULL,NULL,NULL,NULL,NULL,1,'{"inputs":[["seen","1",1]]}','2025-11-16 11:08:55.201853');
INSERT INTO "data_manifest" VALUES('copied','7',1,'copy',7,'','',NULL,NULL,NULL,NULL,NULL,1,'{"inputs":[["seen","7",0]]}','2025-11-16 11:08:55.215764');
INSERT INTO "data_manifest" VALUES('other','2',1,'outside',NULL,'','',NULL,NULL,NULL,NULL,'other 2',1,'{}','2026-11-19 22:45:07.735696');
INSERT INTO "data_manifest" VALUES('other','3',1,'outside',NULL,'','',NULL,NULL,NULL,NULL,'other 3',1,'{}','2026-11-19 22:45:07.735696');
INSERT INTO "data_manifest" VALUES('left','2',1,'split',9,'/data/left/2/v1','parquet',NULL,2,NULL,NULL,'left 2',1,'{"inputs":[["other","2",1],["seen","2",1]]}','2026-11-19 22:45:07.739779');
INSERT INTO "data_manifest" VALUES('right','2',1,'split',9,'/data/right/2/v1','parquet',NULL,2,NULL,NULL,'right 2',1,'{"inputs":[["other","2",1],["seen","2",1]]}','2026-11-19 22:45:07.739779');
INSERT INTO "data_manifest" VALUES('left__rejected','2',1,'split',9,'/data/left__rejected/2/v1','parquet',NULL,2,NULL,NULL,'left__rejected 2',1,'{"inputs":[["other","2",1],["seen","2",1]]}','2026-11-19 22:45:07.739779');
INSERT INTO "data_manifest" VALUES('raw','2025-11-03',2,'outside',NULL,'/data/raw/2025-11-03.csv','csv',130,NULL,NULL,NULL,'raw again',1,'{}','2026-11-19 22:45:07.744035');
CREATE TABLE dataset (
    datasetid     text primary key not null check (datasetid glob '[A-Za-z0-9]*' and not datasetid glob '*[^A-Za-z0-9._=-]*' and length(datasetid) <= 128 and instr(datasetid, char(0)) = 0),
    hostname      text default '',
    database      text default '',
    schemaname    text default '',
    tablename     text default '',
    username      text default '',
    encryptedpass text default '',
    kind          text not null default '' check (kind in ('', 'file', 'table')),
    location      text not null default '',
    format        text not null default '',
    partition     text not null default 'text',
    checks        text not null default '{}',
    options       text not null default '{}',
    modified      text not null default current_timestamp
);
INSERT INTO "dataset" VALUES('today','','','','','','','','','','{"type": "day"}','{}','{"timezone": "UTC"}','2025-11-16 11:08:55');
INSERT INTO "dataset" VALUES('clean','','','','','','','file','clean/{dataid}','parquet','{"type":"day","column":"day","start":"2025-11-01"}','{"rows":{"min":1},"not_null":["carrier"]}','{"readers":3}','2025-11-16 11:08:55');
INSERT INTO "dataset" VALUES('copied','','','','','','','','','','{"type":"number"}','{}','{}','2025-11-16 11:08:55');
INSERT INTO "dataset" VALUES('month','','','','','','','','','','{"type":"month"}','{}','{}','2025-11-16 11:08:55');
INSERT INTO "dataset" VALUES('orders','db.example','shop','public','orders','etl','odf1:AAIAAAIBlilrqJnCmPYcsNBrP8QhAy9DHzXWyaV8_rKZFoAUkSZBKrCTH6nUR-QHDQ_zkAJS0Tk','table','','postgres','{"type":"range","column":"id","count":4,"lower":"0","upper":"4000"}','{}','{}','2025-11-16 11:08:55');
INSERT INTO "dataset" VALUES('raw','','','','','','','file','raw/{dataid}.csv','csv','{"type":"day"}','{}','{}','2025-11-16 11:08:55');
INSERT INTO "dataset" VALUES('seen','','','','','','','','','','{"type":"number"}','{}','{}','2025-11-16 11:08:55');
INSERT INTO "dataset" VALUES('left','','','','','','','','','','{"type":"number"}','{}','{}','2026-11-19 22:45:07');
INSERT INTO "dataset" VALUES('left__rejected','','','','','','','','','','{"type":"number"}','{}','{"repeats":true,"empty":true}','2026-11-19 22:45:07');
INSERT INTO "dataset" VALUES('other','','','','','','','','','','{"type":"number"}','{}','{}','2026-11-19 22:45:07');
INSERT INTO "dataset" VALUES('right','','','','','','','','','','{"type":"number"}','{}','{}','2026-11-19 22:45:07');
CREATE TABLE datastatus (
    datasetid  text not null references dataset,
    jobid      text not null check (jobid glob '[A-Za-z0-9]*' and not jobid glob '*[^A-Za-z0-9._=-]*' and length(jobid) <= 128 and instr(jobid, char(0)) = 0),
    dataid     text not null check (dataid glob '[A-Za-z0-9]*' and not dataid glob '*[^A-Za-z0-9._=-]*' and length(dataid) <= 128 and instr(dataid, char(0)) = 0),
    locktype   text not null check (locktype in ('IN', 'OUT')),
    status     text not null,
    modified   text default current_timestamp,
    epoch      integer not null default 0,
    version    integer not null default 0,
    runid      integer,
    tries      integer not null default 0,
    held       text,
    sort_key   text not null default '',
    lowerbound text,
    upperbound text,
    seal       integer not null default 0,
    primary key (datasetid, dataid, jobid, locktype),
    -- SQLite cannot rewrite a row before it is checked, so the synonyms pass here and a trigger stores the canonical word.
    constraint known_status check (case locktype
        when 'OUT' then upper(status) in ('RUNNING', 'READY', 'FAILED', 'RESUBMIT', 'HOLD', 'PENDING', 'COMPLETE', 'ERROR', 'RERUN')
        else upper(status) in ('RUNNING', 'DONE', 'FAILED', 'ERROR', 'RESUBMIT', 'RERUN') end)
);
INSERT INTO "datastatus" VALUES('raw','outside','2025-11-01','OUT','READY','2025-11-16 11:08:55.089443',1,1,NULL,0,NULL,'2025-11-01',NULL,NULL,1);
INSERT INTO "datastatus" VALUES('raw','outside','2025-11-02','OUT','READY','2025-11-16 11:08:55.089443',1,1,NULL,0,NULL,'2025-11-02',NULL,NULL,1);
INSERT INTO "datastatus" VALUES('raw','outside','2025-11-03','OUT','READY','2026-11-19 22:45:07.745640',2,1,NULL,0,NULL,'2025-11-03',NULL,NULL,3);
INSERT INTO "datastatus" VALUES('raw','outside','2025-11-04','OUT','READY','2025-11-16 11:08:55.089443',1,1,NULL,0,NULL,'2025-11-04',NULL,NULL,1);
INSERT INTO "datastatus" VALUES('raw','outside','2025-11-05','OUT','READY','2025-11-16 11:08:55.089443',1,1,NULL,0,NULL,'2025-11-05',NULL,NULL,1);
INSERT INTO "datastatus" VALUES('raw','outside','2025-11-06','OUT','READY','2025-11-16 11:08:55.089443',1,1,NULL,0,NULL,'2025-11-06',NULL,NULL,1);
INSERT INTO "datastatus" VALUES('orders','outside','1','OUT','READY','2025-11-16 11:08:55.095940',1,1,NULL,0,NULL,'000000000000000001','0','1000',1);
INSERT INTO "datastatus" VALUES('orders','outside','2','OUT','READY','2025-11-16 11:08:55.095940',1,1,NULL,0,NULL,'000000000000000002','1000','2000',1);
INSERT INTO "datastatus" VALUES('clean','load','2025-11-01','OUT','RESUBMIT','2026-11-19 22:45:07.770',1,1,1,0,NULL,'2025-11-01',NULL,NULL,5);
INSERT INTO "datastatus" VALUES('raw','load','2025-11-01','IN','DONE','2025-11-16 11:08:55.122427',1,1,1,0,NULL,'',NULL,NULL,2);
INSERT INTO "datastatus" VALUES('clean','load','2025-11-02','OUT','READY','2025-11-16 11:08:55.159538',2,2,3,0,NULL,'2025-11-02',NULL,NULL,5);
INSERT INTO "datastatus" VALUES('raw','load','2025-11-02','IN','DONE','2025-11-16 11:08:55.159497',2,1,3,0,NULL,'',NULL,NULL,4);
INSERT INTO "datastatus" VALUES('clean','load','2025-11-03','OUT','FAILED','2025-11-16 11:08:55.173522',1,0,4,1,NULL,'2025-11-03',NULL,NULL,2);
INSERT INTO "datastatus" VALUES('raw','load','2025-11-03','IN','FAILED','2025-11-16 11:08:55.173472',1,1,4,0,NULL,'',NULL,NULL,2);
INSERT INTO "datastatus" VALUES('clean','load','2025-11-04','OUT','HOLD','2025-11-16 11:08:55.177809',0,0,NULL,0,NULL,'2025-11-04',NULL,NULL,1);
INSERT INTO "datastatus" VALUES('seen','outside','1','OUT','READY','2025-11-16 11:08:55.191804',1,1,NULL,0,NULL,'000000000000000001',NULL,NULL,1);
INSERT INTO "datastatus" VALUES('seen','outside','2','OUT','READY','2025-11-16 11:08:55.191804',1,1,NULL,0,NULL,'000000000000000002',NULL,NULL,1);
INSERT INTO "datastatus" VALUES('seen','outside','3','OUT','READY','2025-11-16 11:08:55.191804',1,1,NULL,0,NULL,'000000000000000003',NULL,NULL,1);
INSERT INTO "datastatus" VALUES('seen','outside','10','OUT','READY','2025-11-16 11:08:55.191804',1,1,NULL,0,NULL,'000000000000000010',NULL,NULL,1);
INSERT INTO "datastatus" VALUES('copied','copy','1','OUT','READY','2025-11-16 11:08:55.201647',1,1,6,0,NULL,'000000000000000001',NULL,NULL,2);
INSERT INTO "datastatus" VALUES('seen','copy','1','IN','DONE','2025-11-16 11:08:55.201592',1,1,6,0,NULL,'',NULL,NULL,2);
INSERT INTO "datastatus" VALUES('copied','copy','7','OUT','HOLD','2026-11-19 22:45:07.770',1,1,7,0,'READY','000000000000000007',NULL,NULL,3);
INSERT INTO "datastatus" VALUES('seen','copy','7','IN','DONE','2025-11-16 11:08:55.215656',1,0,7,0,NULL,'',NULL,NULL,2);
INSERT INTO "datastatus" VALUES('clean','load','2025-11-05','OUT','RUNNING','2025-11-16 11:08:55.226257',1,0,8,1,NULL,'2025-11-05',NULL,NULL,1);
INSERT INTO "datastatus" VALUES('raw','load','2025-11-05','IN','RUNNING','2025-11-16 11:08:55.226331',1,1,8,0,NULL,'',NULL,NULL,1);
INSERT INTO "datastatus" VALUES('other','outside','2','OUT','READY','2026-11-19 22:45:07.735696',1,1,NULL,0,NULL,'000000000000000002',NULL,NULL,1);
INSERT INTO "datastatus" VALUES('other','outside','3','OUT','READY','2026-11-19 22:45:07.735696',1,1,NULL,0,NULL,'000000000000000003',NULL,NULL,1);
INSERT INTO "datastatus" VALUES('left','split','2','OUT','READY','2026-11-19 22:45:07.739779',1,1,9,0,NULL,'000000000000000002',NULL,NULL,2);
INSERT INTO "datastatus" VALUES('right','split','2','OUT','READY','2026-11-19 22:45:07.739779',1,1,9,0,NULL,'000000000000000002',NULL,NULL,2);
INSERT INTO "datastatus" VALUES('other','split','2','IN','DONE','2026-11-19 22:45:07.739779',1,1,9,0,NULL,'',NULL,NULL,2);
INSERT INTO "datastatus" VALUES('seen','split','2','IN','DONE','2026-11-19 22:45:07.739779',1,1,9,0,NULL,'',NULL,NULL,2);
INSERT INTO "datastatus" VALUES('left__rejected','split','2','OUT','READY','2026-11-19 22:45:07.739779',1,1,NULL,0,NULL,'000000000000000002',NULL,NULL,1);
INSERT INTO "datastatus" VALUES('left','split','3','OUT','RESUBMIT','2026-11-19 22:45:07.742203',1,0,10,1,NULL,'000000000000000003',NULL,NULL,2);
INSERT INTO "datastatus" VALUES('right','split','3','OUT','RESUBMIT','2026-11-19 22:45:07.742203',1,0,10,1,NULL,'000000000000000003',NULL,NULL,2);
INSERT INTO "datastatus" VALUES('other','split','3','IN','FAILED','2026-11-19 22:45:07.742203',1,1,10,0,NULL,'',NULL,NULL,2);
INSERT INTO "datastatus" VALUES('seen','split','3','IN','FAILED','2026-11-19 22:45:07.742203',1,1,10,0,NULL,'',NULL,NULL,2);
CREATE TABLE event (
    eventid   integer primary key autoincrement,
    at        text not null default current_timestamp,
    kind      text not null,
    datasetid text,
    dataid    text,
    jobid     text,
    runid     integer,
    epoch     integer,
    before    text,
    after     text,
    who       text,
    why       text,
    receipt   text
, session text);
INSERT INTO "event" VALUES(1,'2025-11-16 11:08:55.089772','announced','raw','2025-11-01','outside',NULL,1,NULL,'READY','etl','delivered',NULL,NULL);
INSERT INTO "event" VALUES(2,'2025-11-16 11:08:55.089772','announced','raw','2025-11-02','outside',NULL,1,NULL,'READY','etl','delivered',NULL,NULL);
INSERT INTO "event" VALUES(3,'2025-11-16 11:08:55.089772','announced','raw','2025-11-03','outside',NULL,1,NULL,'READY','etl','delivered',NULL,NULL);
INSERT INTO "event" VALUES(4,'2025-11-16 11:08:55.089772','announced','raw','2025-11-04','outside',NULL,1,NULL,'READY','etl','delivered',NULL,NULL);
INSERT INTO "event" VALUES(5,'2025-11-16 11:08:55.089772','announced','raw','2025-11-05','outside',NULL,1,NULL,'READY','etl','delivered',NULL,NULL);
INSERT INTO "event" VALUES(6,'2025-11-16 11:08:55.089772','announced','raw','2025-11-06','outside',NULL,1,NULL,'READY','etl','delivered',NULL,NULL);
INSERT INTO "event" VALUES(7,'2025-11-16 11:08:55.096107','announced','orders','1','outside',NULL,1,NULL,'READY','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(8,'2025-11-16 11:08:55.096107','announced','orders','2','outside',NULL,1,NULL,'READY','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(9,'2025-11-16 11:08:55.106153','claimed','clean','2025-11-01','load',1,1,NULL,'RUNNING','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(10,'2025-11-16 11:08:55.113768','admitted','clean','2025-11-01','load',1,1,NULL,'YES','etl',NULL,'{"jobid":"load","dataid":"2025-11-01","verdict":"YES","ready":{"yes":true,"evidence":{"looked":"ready"}},"right":{"yes":true,"evidence":{"looked":"right"}},"place":{"yes":true,"evidence":{"looked":"place"}},"validated":{"yes":true,"evidence":{"looked":"validated"}},"safe":{"yes":true,"evidence":{"looked":"safe"}}}',NULL);
INSERT INTO "event" VALUES(11,'2025-11-16 11:08:55.122018','published','clean','2025-11-01','load',1,1,'RUNNING','READY','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(12,'2025-11-16 11:08:55.125747','claimed','clean','2025-11-02','load',2,1,NULL,'RUNNING','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(13,'2025-11-16 11:08:55.133451','admitted','clean','2025-11-02','load',2,1,NULL,'YES','etl',NULL,'{"jobid":"load","dataid":"2025-11-02","verdict":"YES","ready":{"yes":true,"evidence":{"looked":"ready"}},"right":{"yes":true,"evidence":{"looked":"right"}},"place":{"yes":true,"evidence":{"looked":"place"}},"validated":{"yes":true,"evidence":{"looked":"validated"}},"safe":{"yes":true,"evidence":{"looked":"safe"}}}',NULL);
INSERT INTO "event" VALUES(14,'2025-11-16 11:08:55.139679','published','clean','2025-11-02','load',2,1,'RUNNING','READY','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(15,'2025-11-16 11:08:55.149953','resubmitted','clean','2025-11-02','load',NULL,1,'READY','RESUBMIT','etl','bad delivery',NULL,NULL);
INSERT INTO "event" VALUES(16,'2025-11-16 11:08:55.153342','claimed','clean','2025-11-02','load',3,2,'RESUBMIT','RUNNING','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(17,'2025-11-16 11:08:55.156004','admitted','clean','2025-11-02','load',3,2,NULL,'YES','etl',NULL,'{"jobid":"load","dataid":"2025-11-02","verdict":"YES","ready":{"yes":true,"evidence":{"looked":"ready"}},"right":{"yes":true,"evidence":{"looked":"right"}},"place":{"yes":true,"evidence":{"looked":"place"}},"validated":{"yes":true,"evidence":{"looked":"validated"}},"safe":{"yes":true,"evidence":{"looked":"safe"}}}',NULL);
INSERT INTO "event" VALUES(18,'2025-11-16 11:08:55.159406','published','clean','2025-11-02','load',3,2,'RUNNING','READY','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(19,'2025-11-16 11:08:55.161803','claimed','clean','2025-11-03','load',4,1,NULL,'RUNNING','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(20,'2025-11-16 11:08:55.169496','admitted','clean','2025-11-03','load',4,1,NULL,'YES','etl',NULL,'{"jobid":"load","dataid":"2025-11-03","verdict":"YES","ready":{"yes":true,"evidence":{"looked":"ready"}},"right":{"yes":true,"evidence":{"looked":"right"}},"place":{"yes":true,"evidence":{"looked":"place"}},"validated":{"yes":true,"evidence":{"looked":"validated"}},"safe":{"yes":true,"evidence":{"looked":"safe"}}}',NULL);
INSERT INTO "event" VALUES(21,'2025-11-16 11:08:55.173351','failed','clean','2025-11-03','load',4,1,'RUNNING','FAILED','etl','exit code 3',NULL,NULL);
INSERT INTO "event" VALUES(22,'2025-11-16 11:08:55.177967','held','clean','2025-11-04','load',NULL,NULL,NULL,'HOLD','etl','ask the airline',NULL,NULL);
INSERT INTO "event" VALUES(23,'2025-11-16 11:08:55.182661','claimed','clean','2025-11-06','load',5,1,NULL,'RUNNING','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(24,'2025-11-16 11:08:55.187271','refused','clean','2025-11-06','load',5,1,'RUNNING','INVALID_PATH',NULL,'outside the roots','{"jobid":"load","dataid":"2025-11-06","verdict":"INVALID_PATH","ready":{"yes":true,"evidence":{"looked":"ready"}},"right":{"yes":true,"evidence":{"looked":"right"}},"place":{"yes":false,"why":"outside the roots"}}',NULL);
INSERT INTO "event" VALUES(25,'2025-11-16 11:08:55.191930','announced','seen','1','outside',NULL,1,NULL,'READY','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(26,'2025-11-16 11:08:55.191930','announced','seen','2','outside',NULL,1,NULL,'READY','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(27,'2025-11-16 11:08:55.191930','announced','seen','3','outside',NULL,1,NULL,'READY','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(28,'2025-11-16 11:08:55.191930','announced','seen','10','outside',NULL,1,NULL,'READY','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(29,'2025-11-16 11:08:55.198064','claimed','copied','1','copy',6,1,NULL,'RUNNING','etl',NULL,'{"jobid":"copy","dataid":"1","verdict":"YES","ready":{"yes":true,"evidence":{"inputs":[["seen","1","READY"]]}},"right":{"yes":true,"evidence":{"versions":[1],"type":"number"}},"place":{"yes":true,"why":"only tracked: no place and no checks are declared"},"validated":{"yes":true,"why":"only tracked: no place and no checks are declared"},"safe":{"yes":true,"evidence":{"epoch":1,"output":null,"pool":null}}}',NULL);
INSERT INTO "event" VALUES(30,'2025-11-16 11:08:55.201496','published','copied','1','copy',6,1,'RUNNING','READY','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(31,'2025-11-16 11:08:55.210025','claimed','copied','7','copy',7,1,NULL,'RUNNING','etl','forced','{"jobid":"copy","dataid":"7","verdict":"DATA_NOT_READY","ready":{"yes":null,"evidence":{"inputs":[["seen","7",null]]},"why":"forced: nobody asked"}}',NULL);
INSERT INTO "event" VALUES(32,'2025-11-16 11:08:55.215569','published','copied','7','copy',7,1,'RUNNING','READY','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(33,'2025-11-16 11:08:55.221363','refused','copied','8','copy',NULL,NULL,NULL,'DATA_NOT_READY','etl','seen 8 is not there','{"jobid":"copy","dataid":"8","verdict":"DATA_NOT_READY","ready":{"yes":false,"evidence":{"inputs":[["seen","8",null]]},"why":"seen 8 is not there"}}',NULL);
INSERT INTO "event" VALUES(34,'2025-11-16 11:08:55.226375','claimed','clean','2025-11-05','load',8,1,NULL,'RUNNING','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(35,'2025-11-16 11:08:55.229287','admitted','clean','2025-11-05','load',8,1,NULL,'YES','etl',NULL,'{"jobid":"load","dataid":"2025-11-05","verdict":"YES","ready":{"yes":true,"evidence":{"looked":"ready"}},"right":{"yes":true,"evidence":{"looked":"right"}},"place":{"yes":true,"evidence":{"looked":"place"}},"validated":{"yes":true,"evidence":{"looked":"validated"}},"safe":{"yes":true,"evidence":{"looked":"safe"}}}',NULL);
INSERT INTO "event" VALUES(36,'2026-11-19 22:45:07.735696','announced','other','2','outside',NULL,1,NULL,'READY','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(37,'2026-11-19 22:45:07.735696','announced','other','3','outside',NULL,1,NULL,'READY','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(38,'2026-11-19 22:45:07.738171','claimed','left','2','split',9,1,NULL,'RUNNING','etl',NULL,'{"jobid":"split","dataid":"2","verdict":"YES","ready":{"yes":true,"evidence":{"inputs":[["other","2","READY"],["seen","2","READY"]]}},"right":{"yes":true,"evidence":{"type":"number","versions":[1,1]}},"place":{"yes":null,"why":"only tracked: no location and no checks are declared"},"validated":{"yes":null,"why":"only tracked: no location and no checks are declared"},"safe":{"yes":true,"evidence":{"outputs":{"left":null,"right":null},"epoch":1}}}',NULL);
INSERT INTO "event" VALUES(39,'2026-11-19 22:45:07.738171','claimed','right','2','split',9,1,NULL,'RUNNING','etl',NULL,'{"jobid":"split","dataid":"2","verdict":"YES","ready":{"yes":true,"evidence":{"inputs":[["other","2","READY"],["seen","2","READY"]]}},"right":{"yes":true,"evidence":{"type":"number","versions":[1,1]}},"place":{"yes":null,"why":"only tracked: no location and no checks are declared"},"validated":{"yes":null,"why":"only tracked: no location and no checks are declared"},"safe":{"yes":true,"evidence":{"outputs":{"left":null,"right":null},"epoch":1}}}',NULL);
INSERT INTO "event" VALUES(40,'2026-11-19 22:45:07.739779','published','left','2','split',9,1,'RUNNING','READY','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(41,'2026-11-19 22:45:07.739779','published','right','2','split',9,1,'RUNNING','READY','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(42,'2026-11-19 22:45:07.739779','announced','left__rejected','2','split',9,1,NULL,'READY','etl','rejected by run 9 of split',NULL,NULL);
INSERT INTO "event" VALUES(43,'2026-11-19 22:45:07.741547','claimed','left','3','split',10,1,NULL,'RUNNING','etl',NULL,'{"jobid":"split","dataid":"3","verdict":"YES","ready":{"yes":true,"evidence":{"inputs":[["other","3","READY"],["seen","3","READY"]]}},"right":{"yes":true,"evidence":{"type":"number","versions":[1,1]}},"place":{"yes":null,"why":"only tracked: no location and no checks are declared"},"validated":{"yes":null,"why":"only tracked: no location and no checks are declared"},"safe":{"yes":true,"evidence":{"outputs":{"left":null,"right":null},"epoch":1}}}',NULL);
INSERT INTO "event" VALUES(44,'2026-11-19 22:45:07.741547','claimed','right','3','split',10,1,NULL,'RUNNING','etl',NULL,'{"jobid":"split","dataid":"3","verdict":"YES","ready":{"yes":true,"evidence":{"inputs":[["other","3","READY"],["seen","3","READY"]]}},"right":{"yes":true,"evidence":{"type":"number","versions":[1,1]}},"place":{"yes":null,"why":"only tracked: no location and no checks are declared"},"validated":{"yes":null,"why":"only tracked: no location and no checks are declared"},"safe":{"yes":true,"evidence":{"outputs":{"left":null,"right":null},"epoch":1}}}',NULL);
INSERT INTO "event" VALUES(45,'2026-11-19 22:45:07.742203','failed','left','3','split',10,1,'RUNNING','RESUBMIT','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(46,'2026-11-19 22:45:07.742203','failed','right','3','split',10,1,'RUNNING','RESUBMIT','etl',NULL,NULL,NULL);
INSERT INTO "event" VALUES(47,'2026-11-19 22:45:07.744035','announced','raw','2025-11-03','outside',NULL,2,'READY','READY','etl','corrected',NULL,NULL);
INSERT INTO "event" VALUES(48,'2026-11-19 22:45:07.745640','rolled back','raw','2025-11-03','outside',NULL,2,'READY','READY','etl','version 2 → 1: it was the wrong file',NULL,NULL);
CREATE TABLE incident (
    incidentid integer primary key autoincrement,
    kind       text not null check (kind in ('failed', 'late', 'refused', 'recalled')),
    cause      text not null,
    why        text not null default '',
    datasetid  text not null,
    dataid     text not null,
    jobid      text not null default '',
    chunks     integer not null default 0,
    most       integer not null default 0,
    opened     text not null default current_timestamp,
    closed     text
);
INSERT INTO "incident" VALUES(1,'failed','JOB_FAILED exit code 3','exit code 3','clean','2025-11-03','load',1,1,'2025-11-17 08:02:00.000000',NULL);
CREATE TABLE incident_chunk (
    kind       text not null,
    datasetid  text not null,
    dataid     text not null,
    incidentid integer not null,
    eventid    integer not null default 0,
    primary key (kind, datasetid, dataid)
) without rowid;
INSERT INTO "incident_chunk" VALUES('failed','clean','2025-11-03',1,17);
CREATE TABLE job (
    jobid     text not null check (jobid glob '[A-Za-z0-9]*' and not jobid glob '*[^A-Za-z0-9._=-]*' and length(jobid) <= 128 and instr(jobid, char(0)) = 0),
    itemtype  text not null check (itemtype <> ''),
    datasetid text references dataset,
    itemvalue text,
    modified  text default current_timestamp,
    check (itemtype not in ('IN', 'OUT') or datasetid is not null)
);
INSERT INTO "job" VALUES('copy','IN','seen',NULL,'2025-11-16 11:08:55.068051');
INSERT INTO "job" VALUES('copy','OUT','copied',NULL,'2025-11-16 11:08:55.068128');
INSERT INTO "job" VALUES('load','IN','raw',NULL,'2025-11-16 11:08:55.068349');
INSERT INTO "job" VALUES('load','OUT','clean',NULL,'2025-11-16 11:08:55.068416');
INSERT INTO "job" VALUES('load','CURRENCY',NULL,'EUR','2025-11-16 11:08:55.068457');
INSERT INTO "job" VALUES('sum','IN','clean','rollup','2025-11-16 11:08:55.068521');
INSERT INTO "job" VALUES('sum','OUT','month',NULL,'2025-11-16 11:08:55.068554');
INSERT INTO "job" VALUES('split','IN','other',NULL,'2026-11-19 22:45:07.732221');
INSERT INTO "job" VALUES('split','IN','seen',NULL,'2026-11-19 22:45:07.732221');
INSERT INTO "job" VALUES('split','OUT','left',NULL,'2026-11-19 22:45:07.732221');
INSERT INTO "job" VALUES('split','OUT','right',NULL,'2026-11-19 22:45:07.732221');
CREATE TABLE jobrule (
    jobid       text primary key not null check (jobid glob '[A-Za-z0-9]*' and not jobid glob '*[^A-Za-z0-9._=-]*' and length(jobid) <= 128 and instr(jobid, char(0)) = 0),
    retries     integer not null default 0 check (retries >= 0),
    backoff     real not null default 10 check (backoff >= 0),
    backoff_max real not null default 3600 check (backoff_max >= 0),
    retry_on    text not null default '',
    lease       real not null default 30 check (lease > 0),
    timeout     real check (timeout > 0),
    pool        text not null default '',
    options     text not null default '{}',
    modified    text not null default current_timestamp
);
INSERT INTO "jobrule" VALUES('copy',2,30.0,600.0,'JOB_FAILED',30.0,NULL,'','{}','2025-11-16 11:08:55');
INSERT INTO "jobrule" VALUES('load',0,10.0,3600.0,'',45.0,600.0,'etl','{}','2025-11-16 11:08:55');
INSERT INTO "jobrule" VALUES('sum',0,10.0,3600.0,'',30.0,NULL,'','{}','2025-11-16 11:08:55');
INSERT INTO "jobrule" VALUES('split',1,5.0,3600.0,'',30.0,NULL,'','x','2026-11-19 22:45:07');
CREATE TABLE log_tail (
    runid integer primary key,
    tail  text not null
);
INSERT INTO "log_tail" VALUES(4,'exit code 3');
CREATE TABLE made_from (
    in_datasetid text not null,
    in_dataid    text not null,
    in_version   integer not null,
    datasetid    text not null,
    dataid       text not null,
    version      integer not null,
    primary key (in_datasetid, in_dataid, datasetid, dataid, version)
) without rowid;
INSERT INTO "made_from" VALUES('other','2',1,'left','2',1);
INSERT INTO "made_from" VALUES('other','2',1,'left__rejected','2',1);
INSERT INTO "made_from" VALUES('other','2',1,'right','2',1);
INSERT INTO "made_from" VALUES('raw','2025-11-01',1,'clean','2025-11-01',1);
INSERT INTO "made_from" VALUES('raw','2025-11-02',1,'clean','2025-11-02',1);
INSERT INTO "made_from" VALUES('raw','2025-11-02',1,'clean','2025-11-02',2);
INSERT INTO "made_from" VALUES('seen','1',1,'copied','1',1);
INSERT INTO "made_from" VALUES('seen','2',1,'left','2',1);
INSERT INTO "made_from" VALUES('seen','2',1,'left__rejected','2',1);
INSERT INTO "made_from" VALUES('seen','2',1,'right','2',1);
INSERT INTO "made_from" VALUES('seen','7',0,'copied','7',1);
CREATE TABLE message (
    messageid   integer primary key autoincrement,
    incidentid  integer not null,
    target      text not null,
    what        text not null check (what in ('opened', 'reminder', 'over')),
    number      integer not null default 0,
    state       text not null default 'WAITING' check (state in ('WAITING', 'SENDING', 'SENT', 'DROPPED')),
    chunks      integer not null default 0,
    not_before  real not null default 0,
    lease_until real not null default 0,
    tries       integer not null default 0,
    problem     text not null default '',
    who         text not null default '',
    written     text not null default current_timestamp,
    ended       text,
    unique (incidentid, target, what, number)
);
INSERT INTO "message" VALUES(1,1,'oncall','opened',0,'WAITING',1,0.0,0.0,0,'','','2025-11-17 08:02:00.000000',NULL);
CREATE TABLE meta (
    name  text primary key not null,
    value text not null
);
INSERT INTO "meta" VALUES('revision','33');
INSERT INTO "meta" VALUES('clock','0 1.5');
INSERT INTO "meta" VALUES('environment','dev');
INSERT INTO "meta" VALUES('schema of clean','carrier STRING, delay INT');
INSERT INTO "meta" VALUES('identity','21c4026c1067d686');
INSERT INTO "meta" VALUES('applied','d2');
INSERT INTO "meta" VALUES('jobs of project shop','split');
INSERT INTO "meta" VALUES('lineage dropped','1');
INSERT INTO "meta" VALUES('lineage sent','3');
INSERT INTO "meta" VALUES('broken copy 30','since');
INSERT INTO "meta" VALUES('mended copy 30','since');
INSERT INTO "meta" VALUES('broken split 32','since');
CREATE TABLE migration (number integer primary key, name text not null, checksum text not null, applied text not null);
INSERT INTO "migration" VALUES(1,'foundation','0e9417be','2025-11-16 11:08:55.047543');
INSERT INTO "migration" VALUES(2,'words','b3ff3910','2026-11-19 22:45:07.721437');
INSERT INTO "migration" VALUES(3,'facts','7b03ebec','2026-11-19 22:45:07.721437');
INSERT INTO "migration" VALUES(4,'original_order','cf273b56','2026-11-19 22:45:07.721437');
INSERT INTO "migration" VALUES(5,'on_call','e1a57dad','2026-11-19 22:45:07.721437');
INSERT INTO "migration" VALUES(6,'lineage','5f748082','2026-11-19 22:45:07.721437');
INSERT INTO "migration" VALUES(7,'stale','0fddb388','2026-11-19 22:45:07.721437');
INSERT INTO "migration" VALUES(8,'notify','bea837ef','2026-11-19 22:45:07.721437');
INSERT INTO "migration" VALUES(9,'history','e92e9de7','2026-11-19 22:45:07.721437');
INSERT INTO "migration" VALUES(10,'cheaper_rows','3ce6e1bc','2026-11-19 22:45:07.721437');
INSERT INTO "migration" VALUES(11,'remarks','455a0710','2026-11-19 22:45:07.721437');
INSERT INTO "migration" VALUES(12,'fewer_looks','5a925ab9','2026-11-19 22:45:07.721437');
CREATE TABLE note (
    noteid    integer primary key autoincrement,
    at        text not null default current_timestamp,
    datasetid text,
    dataid    text,
    jobid     text,
    locktype  text,
    before    text,
    after     text,
    who       text
);
INSERT INTO "note" VALUES(14,'2026-11-19 22:45:07.770','clean','2025-11-01','load','OUT','READY','RESUBMIT','sql');
INSERT INTO "note" VALUES(15,'2026-11-19 22:45:07.770','copied','7','copy','OUT','READY','HOLD','sql');
CREATE TABLE noticed (
    name    text primary key not null,
    eventid integer not null
);
INSERT INTO "noticed" VALUES('seen',35);
CREATE TABLE pause (
    jobid text primary key check (length(jobid) between 1 and 128),
    who   text not null default 'sql',
    why   text,
    since text not null default current_timestamp
);
INSERT INTO "pause" VALUES('later','olga','month end','2025-11-17 08:00:00.000000');
CREATE TABLE pool (
    poolid   text primary key not null check (poolid glob '[A-Za-z0-9]*' and not poolid glob '*[^A-Za-z0-9._=-]*' and length(poolid) <= 128 and instr(poolid, char(0)) = 0),
    slots   integer check (slots >= 0),
    options  text not null default '{}',
    modified text not null default current_timestamp
);
INSERT INTO "pool" VALUES('etl',4,'{"hours":["Mon-Fri 08:00-18:00 -> 2"]}','2025-11-16 11:08:55');
INSERT INTO "pool" VALUES('night',0,'{}','2025-11-16 11:08:55');
CREATE TABLE recalled (
    datasetid text not null,
    dataid    text not null,
    version   integer not null,
    who       text not null default 'sql',
    why       text not null default '',
    at        text not null default current_timestamp,
    primary key (datasetid, dataid, version)
) without rowid;
INSERT INTO "recalled" VALUES('copied','1',1,'olga','wrong columns','2025-11-17 08:01:00.000000');
CREATE TABLE remake (
    datasetid text not null,
    dataid    text not null,
    version   integer not null,
    primary key (datasetid, dataid)
) without rowid;
INSERT INTO "remake" VALUES('clean','2025-11-01',1);
CREATE TABLE run (
    runid       integer primary key autoincrement,
    jobid       text not null,
    dataid      text not null,
    epoch       integer not null,
    status      text not null check (status in ('RUNNING', 'READY', 'FAILED', 'LOST', 'REFUSED')),
    pool        text not null default '',
    owner       text not null default '',
    lease       real not null default 30,
    lease_until real,
    forced      integer not null default 0,
    inputs      text not null default '[]',
    started     text not null default current_timestamp,
    ended       text,
    outcome     text,
    detail      text,
    exit_code   integer,
    log         text,
    unique (jobid, dataid, epoch)
);
INSERT INTO "run" VALUES(1,'load','2025-11-01',1,'READY','etl','etl',45.0,NULL,0,'[["raw","2025-11-01",1]]','2025-11-16 11:08:55.104747','2025-11-16 11:08:55.122096','READY',NULL,0,'/logs/load/2025-11-01-1.log');
INSERT INTO "run" VALUES(2,'load','2025-11-02',1,'READY','etl','etl',45.0,NULL,0,'[["raw","2025-11-02",1]]','2025-11-16 11:08:55.125590','2025-11-16 11:08:55.139727','READY',NULL,0,'/logs/load/2025-11-02-2.log');
INSERT INTO "run" VALUES(3,'load','2025-11-02',2,'READY','etl','etl',45.0,NULL,0,'[["raw","2025-11-02",1]]','2025-11-16 11:08:55.153018','2025-11-16 11:08:55.159446','READY',NULL,0,'/logs/load/2025-11-02-3.log');
INSERT INTO "run" VALUES(4,'load','2025-11-03',1,'FAILED','etl','etl',45.0,NULL,0,'[["raw","2025-11-03",1]]','2025-11-16 11:08:55.161615','2025-11-16 11:08:55.173408','JOB_FAILED','exit code 3',3,'/logs/load/2025-11-03-4.log');
INSERT INTO "run" VALUES(5,'load','2025-11-06',1,'REFUSED','etl','etl',45.0,NULL,0,'[["raw","2025-11-06",1]]','2025-11-16 11:08:55.182442','2025-11-16 11:08:55.186752','INVALID_PATH','outside the roots',NULL,NULL);
INSERT INTO "run" VALUES(6,'copy','1',1,'READY','','etl',30.0,NULL,0,'[["seen","1",1]]','2025-11-16 11:08:55.197821','2025-11-16 11:08:55.201541','READY',NULL,NULL,NULL);
INSERT INTO "run" VALUES(7,'copy','7',1,'READY','','etl',30.0,NULL,1,'[["seen","7",0]]','2025-11-16 11:08:55.209845','2025-11-16 11:08:55.215612','READY',NULL,0,NULL);
INSERT INTO "run" VALUES(8,'load','2025-11-05',1,'RUNNING','etl','etl',45.0,1763291146.5,0,'[["raw","2025-11-05",1]]','2025-11-16 11:08:55.226150',NULL,NULL,NULL,NULL,'/logs/load/2025-11-05-8.log');
INSERT INTO "run" VALUES(9,'split','2',1,'READY','','etl',30.0,NULL,0,'[["other","2",1],["seen","2",1]]','2026-11-19 22:45:07.738171','2026-11-19 22:45:07.739779','READY',NULL,0,NULL);
INSERT INTO "run" VALUES(10,'split','3',1,'FAILED','','etl',30.0,NULL,0,'[["other","3",1],["seen","3",1]]','2026-11-19 22:45:07.741547','2026-11-19 22:45:07.742203','JOB_FAILED',NULL,1,NULL);
CREATE TABLE stale (
    datasetid    text not null,
    dataid       text not null,
    version      integer not null,
    in_datasetid text not null,
    in_dataid    text not null,
    in_version   integer not null,
    primary key (datasetid, dataid, in_datasetid, in_dataid)
) without rowid;
INSERT INTO "stale" VALUES('copied','1',1,'seen','1',1);
CREATE UNIQUE INDEX job_item on job (jobid, itemtype, coalesce(datasetid, ''));
CREATE UNIQUE INDEX one_producer on job (datasetid) where itemtype = 'OUT';
CREATE INDEX job_of_dataset on job (datasetid, itemtype);
CREATE INDEX leases on run (lease_until) where status = 'RUNNING';
CREATE INDEX manifest_fingerprint on data_manifest (datasetid, fingerprint) where fingerprint is not null;
CREATE INDEX event_of_chunk on event (datasetid, dataid, eventid);
CREATE TRIGGER event_is_never_updated before update on event
    begin select raise(abort, 'event is append-only: history is never changed'); end;
CREATE TRIGGER event_is_never_deleted before delete on event
    begin select raise(abort, 'event is append-only: history is never changed'); end;
CREATE INDEX candidates_in_order on candidate (jobid, rank, sort_key) where state = 'CLAIMABLE';
CREATE INDEX candidates_deferred on candidate (not_before) where state = 'DEFERRED';
CREATE VIEW candidate_facts as
select c.jobid, c.dataid, c.rank, c.sort_key,
       1 + max(
           coalesce((select max(r.epoch) from run r where r.jobid = c.jobid and r.dataid = c.dataid), 0),
           coalesce((select max(max(s.epoch, s.version)) from job o
                     cross join datastatus s on s.datasetid = o.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'
                     where o.jobid = c.jobid and o.itemtype = 'OUT'), 0),
           coalesce((select max(m.version) from job o
                     cross join data_manifest m on m.datasetid = o.datasetid and m.dataid = c.dataid
                     where o.jobid = c.jobid and o.itemtype = 'OUT'), 0)) as epoch,
       coalesce((select max(s.tries) from job o
                 cross join datastatus s on s.datasetid = o.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'
                 where o.jobid = c.jobid and o.itemtype = 'OUT'), 0) as tries,
       (select json_group_array(json_array(i.value ->> 0, i.value ->> 1, s.status, s.version))
        from json_each(c.inputs) i
        left join datastatus s on s.datasetid = i.value ->> 0 and s.dataid = i.value ->> 1 and s.locktype = 'OUT') as inputs
from candidate c;
CREATE VIEW job_status as
select s.jobid, s.datasetid, s.dataid, s.status, s.modified, s.epoch, s.version, s.tries
from datastatus s
where s.locktype = 'OUT'
  and exists (select 1 from job o where o.datasetid = s.datasetid and o.itemtype = 'OUT');
CREATE TRIGGER job_needs_its_dataset before insert on job
    when new.datasetid is not null and not exists (select 1 from dataset where datasetid = new.datasetid)
    begin select raise(abort, 'UNKNOWN_DATASET: job names a datasetid that is not in table dataset'); end;
CREATE TRIGGER job_keeps_its_dataset before update of datasetid on job
    when new.datasetid is not null and not exists (select 1 from dataset where datasetid = new.datasetid)
    begin select raise(abort, 'UNKNOWN_DATASET: job names a datasetid that is not in table dataset'); end;
CREATE TRIGGER dataset_stays_while_it_is_used before delete on dataset
    when exists (select 1 from datastatus where datasetid = old.datasetid) or exists (select 1 from job where datasetid = old.datasetid)
    begin select raise(abort, 'the dataset has chunks, or a job reads or writes it'); end;
CREATE TRIGGER dataset_keeps_its_name before update of datasetid on dataset
    when new.datasetid <> old.datasetid
     and (exists (select 1 from datastatus where datasetid = old.datasetid) or exists (select 1 from job where datasetid = old.datasetid))
    begin select raise(abort, 'the dataset has chunks, or a job reads or writes it'); end;
CREATE TRIGGER note_dataset_insert after insert on dataset begin
    update meta set value = value + 1 where name = 'revision'; end;
CREATE TRIGGER note_dataset_update after update on dataset begin
    update meta set value = value + 1 where name = 'revision';
    insert into note (datasetid, who) values (new.datasetid, 'sql'); end;
CREATE TRIGGER note_dataset_delete after delete on dataset begin
    update meta set value = value + 1 where name = 'revision'; end;
CREATE TRIGGER note_job_insert after insert on job begin
    update meta set value = value + 1 where name = 'revision'; insert into note (jobid, who) values (new.jobid, 'sql'); end;
CREATE TRIGGER note_job_update after update on job begin
    update meta set value = value + 1 where name = 'revision'; insert into note (jobid, who) values (new.jobid, 'sql'); end;
CREATE TRIGGER note_job_delete after delete on job begin
    update meta set value = value + 1 where name = 'revision'; insert into note (jobid, who) values (old.jobid, 'sql'); end;
CREATE TRIGGER note_jobrule_insert after insert on jobrule begin update meta set value = value + 1 where name = 'revision'; end;
CREATE TRIGGER note_jobrule_update after update on jobrule begin update meta set value = value + 1 where name = 'revision'; end;
CREATE TRIGGER note_jobrule_delete after delete on jobrule begin update meta set value = value + 1 where name = 'revision'; end;
CREATE TRIGGER note_pool_insert after insert on pool begin update meta set value = value + 1 where name = 'revision'; end;
CREATE TRIGGER note_pool_update after update on pool begin update meta set value = value + 1 where name = 'revision'; end;
CREATE TRIGGER note_pool_delete after delete on pool begin update meta set value = value + 1 where name = 'revision'; end;
CREATE VIEW receipt as
select eventid as receiptid, at, jobid, datasetid, dataid, runid,
       case when kind <> 'claimed' then after when why = 'forced' then 'NOT_ASKED' else 'YES' end as verdict, who, receipt
from event where receipt is not null;
CREATE TRIGGER event_is_never_replaced before insert on event
    when exists (select 1 from event where eventid = new.eventid)
    begin select raise(abort, 'event is append-only: history is never changed'); end;
CREATE TRIGGER event_is_numbered after insert on event when new.eventid < 1
    begin select raise(abort, 'event is append-only: its rows are numbered from 1'); end;
CREATE INDEX unfit_notes on event (eventid) where kind = 'unfit note';
CREATE TRIGGER note_names_its_session after insert on note when new.who <> 'sql'
    begin update note set who = 'sql' where noteid = new.noteid; end;
CREATE TRIGGER encryptedpass_is_encrypted before insert on dataset when not (
    coalesce(new.encryptedpass, '') = ''
    or (typeof(new.encryptedpass) = 'text' and instr(new.encryptedpass, char(0)) = 0 and length(new.encryptedpass) <= 16384 and (
        (new.encryptedpass glob 'odf[12]:*' and length(new.encryptedpass) >= 69
            and not substr(rtrim(new.encryptedpass, '='), 6) glob '*[^A-Za-z0-9_-]*')
        or (length(new.encryptedpass) >= 40 and not rtrim(new.encryptedpass, '=') glob '*[^A-Za-z0-9+/]*'
            and (length(new.encryptedpass) % 4 = 0 or instr(new.encryptedpass, '=') = 0)))
        and length(new.encryptedpass) - length(rtrim(new.encryptedpass, '=')) <= 2))
    begin select raise(abort, 'encryptedpass_is_encrypted: this is no encrypted password'); end;
CREATE TRIGGER encryptedpass_stays_encrypted before update on dataset when not (
    coalesce(new.encryptedpass, '') = ''
    or (typeof(new.encryptedpass) = 'text' and instr(new.encryptedpass, char(0)) = 0 and length(new.encryptedpass) <= 16384 and (
        (new.encryptedpass glob 'odf[12]:*' and length(new.encryptedpass) >= 69
            and not substr(rtrim(new.encryptedpass, '='), 6) glob '*[^A-Za-z0-9_-]*')
        or (length(new.encryptedpass) >= 40 and not rtrim(new.encryptedpass, '=') glob '*[^A-Za-z0-9+/]*'
            and (length(new.encryptedpass) % 4 = 0 or instr(new.encryptedpass, '=') = 0)))
        and length(new.encryptedpass) - length(rtrim(new.encryptedpass, '=')) <= 2))
    begin select raise(abort, 'encryptedpass_is_encrypted: this is no encrypted password'); end;
CREATE UNIQUE INDEX one_out_row_per_chunk on datastatus (datasetid, dataid) where locktype = 'OUT';
CREATE INDEX chunks_in_order on datastatus (datasetid, sort_key, dataid, status) where locktype = 'OUT';
CREATE INDEX chunks_not_settled on datastatus (status, datasetid, sort_key) where locktype = 'OUT' and status <> 'READY';
CREATE TRIGGER datastatus_needs_its_dataset before insert on datastatus
    when new.seal = 0 and not exists (select 1 from dataset where datasetid = new.datasetid)
    begin select raise(abort, 'UNKNOWN_DATASET: datastatus names a datasetid that is not in table dataset'); end;
CREATE TRIGGER datastatus_keeps_its_dataset before update of datasetid on datastatus
    when not exists (select 1 from dataset where datasetid = new.datasetid)
    begin select raise(abort, 'UNKNOWN_DATASET: datastatus names a datasetid that is not in table dataset'); end;
CREATE TRIGGER reading_begins_with_a_word_of_its_own before insert on datastatus
    when new.locktype = 'IN' and upper(new.status) in ('RESUBMIT', 'RERUN')
    begin select raise(abort, 'CHECK constraint failed: known_status'); end;
CREATE TRIGGER note_insert after insert on datastatus when new.seal = 0
    begin
        update datastatus set seal = seal + 1, status = case
                when new.locktype = 'OUT' and upper(new.status) = 'COMPLETE' then 'READY'
                when new.locktype = 'OUT' and upper(new.status) = 'RERUN' then 'RESUBMIT'
                when upper(new.status) = 'ERROR' then 'FAILED' else upper(new.status) end
        where rowid = new.rowid;
        insert into note (at, datasetid, dataid, jobid, locktype, before, after, who)
        select strftime('%Y-%m-%d %H:%M:%f', 'now'), datasetid, dataid, jobid, locktype, null, status, 'sql'
        from datastatus where rowid = new.rowid;
    end;
CREATE TRIGGER note_update after update on datastatus when new.seal = old.seal
    begin
        update datastatus set seal = seal + 1, status = case
                when new.locktype = 'IN' and upper(new.status) in ('RESUBMIT', 'RERUN')
                    then case when old.status = 'RUNNING' then 'RUNNING' else 'FAILED' end
                when new.locktype = 'OUT' and upper(new.status) = 'COMPLETE' then 'READY'
                when new.locktype = 'OUT' and upper(new.status) = 'RERUN' then 'RESUBMIT'
                when upper(new.status) = 'ERROR' then 'FAILED' else upper(new.status) end,
            modified = case when new.modified is old.modified then strftime('%Y-%m-%d %H:%M:%f', 'now') else new.modified end,
            held = case when new.locktype = 'OUT' and upper(new.status) in ('HOLD', 'PENDING')
                         and old.status not in ('HOLD', 'PENDING') then old.status else new.held end
        where rowid = new.rowid;
        insert into note (at, datasetid, dataid, jobid, locktype, before, after, who)
        select strftime('%Y-%m-%d %H:%M:%f', 'now'), old.datasetid, old.dataid, old.jobid, old.locktype, old.status,
               case when (old.datasetid, old.dataid, old.locktype) = (new.datasetid, new.dataid, new.locktype) then status end, 'sql'
        from datastatus where rowid = new.rowid;
        insert into note (at, datasetid, dataid, jobid, locktype, before, after, who)
        select strftime('%Y-%m-%d %H:%M:%f', 'now'), datasetid, dataid, jobid, locktype, null, status, 'sql' from datastatus
        where rowid = new.rowid and (old.datasetid, old.dataid, old.locktype) <> (new.datasetid, new.dataid, new.locktype);
    end;
CREATE TRIGGER note_delete after delete on datastatus when old.seal >= 0
    begin
        insert into note (at, datasetid, dataid, jobid, locktype, before, after, who)
        values (strftime('%Y-%m-%d %H:%M:%f', 'now'), old.datasetid, old.dataid, old.jobid, old.locktype, old.status, null, 'sql');
    end;
CREATE TRIGGER job_status_is_updatable instead of update on job_status
    begin
        update datastatus set status = new.status, modified = new.modified
        where datasetid = old.datasetid and dataid = old.dataid and locktype = 'OUT';
    end;
CREATE TRIGGER note_pause_insert after insert on pause begin update meta set value = value + 1 where name = 'revision'; end;
CREATE TRIGGER note_pause_update after update on pause begin update meta set value = value + 1 where name = 'revision'; end;
CREATE TRIGGER note_pause_delete after delete on pause begin update meta set value = value + 1 where name = 'revision'; end;
CREATE INDEX stale_by_input on stale (in_datasetid, in_dataid);
CREATE UNIQUE INDEX incident_open on incident (kind, cause) where closed is null;
CREATE INDEX chunks_of_incident on incident_chunk (incidentid);
CREATE INDEX messages_to_send on message (target, messageid) where ended is null;
CREATE INDEX events_of_kind on event (kind, eventid) where kind <> 'claimed' and kind <> 'admitted' and kind <> 'published' and kind <> 'announced';
CREATE INDEX runs_remarked on run (runid) where status = 'READY' and detail is not null;
CREATE INDEX running_in_pool on run (pool) where status = 'RUNNING' and pool <> '';
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('note',15);
INSERT INTO "sqlite_sequence" VALUES('event',48);
INSERT INTO "sqlite_sequence" VALUES('run',10);
INSERT INTO "sqlite_sequence" VALUES('incident',1);
INSERT INTO "sqlite_sequence" VALUES('message',1);
COMMIT;
