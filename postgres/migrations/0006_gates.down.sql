alter table {schema}.worker drop column tenants;
drop table {schema}.gate_version;
drop table {schema}.gate_state;
drop table {schema}.gate;
drop function {schema}.gate_changed;
