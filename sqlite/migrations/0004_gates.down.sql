drop table later_gate_state;
drop table later_gate;
drop table later_gate_version;
