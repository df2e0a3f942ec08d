drop table later_gate;
