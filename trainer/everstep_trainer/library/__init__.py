"""What a training script sees of Everstep: membership that changes, state that stays (R16-R22)."""
