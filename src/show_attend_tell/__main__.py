"""`python -m show_attend_tell`: the command `sat`."""

from show_attend_tell.cli import main

main(prog_name="sat")
