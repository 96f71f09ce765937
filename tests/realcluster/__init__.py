"""The same tests on a real control plane, and what starts one."""
