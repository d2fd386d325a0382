-- Six thousand orders to try it with, one of which cannot be right.
create table orders (
    id       bigint primary key,
    customer text not null,
    amount   numeric(10, 2) not null,
    ordered  timestamptz not null
);

insert into orders
select 1000 + i * 7, 'customer ' || i % 100, (i * 37 % 10000) / 100.0, timestamptz '2025-01-01 00:00:00+00' + i * interval '5 minutes'
from generate_series(1, 6000) i;

update orders set amount = -1 where id = 1000 + 3333 * 7;
