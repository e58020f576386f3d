"""Attacks: random damage, tables and commands, each drawn from a seed.

What a command may do is give the right number, or say what is wrong in two
lines. `pytest --attack` draws as many cases as `docs/reference/reliability.md`
names; a run of the slow tests draws a tenth of them.
"""
