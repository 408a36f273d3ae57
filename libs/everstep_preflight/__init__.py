"""What is wrong with a Volcano Job before it runs, and how to put it right.

Text becomes located YAML, located YAML becomes a view of what Everstep cares about, and pure rules
turn that view into findings. Nothing here reads a file, a cluster or a clock.
"""
