"""The rules, one file a family: what was given -> findings. Pure, all of them."""
