"""`python -m troupe`: the command, where its folder is not on PATH."""

from troupe.cli import main

main()
