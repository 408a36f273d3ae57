"""DECIDE: weighs the evidence about every job and writes the verdict into its record."""
