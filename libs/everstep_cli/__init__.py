"""The command line `everstep`: drill, status, events, incidents."""
