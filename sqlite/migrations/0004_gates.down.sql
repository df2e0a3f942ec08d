alter table later_worker drop column tenants;
drop table later_gate_state;
drop table later_gate;
drop table later_gate_version;
