drop table {schema}.gate_version;
drop table {schema}.gate;
drop function {schema}.gate_changed;
