"""`everstep drill`: the whole loop on one machine, hurt on purpose, measured and taken down."""
