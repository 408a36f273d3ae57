"""The public face of Everstep for training scripts: `import everstep`."""
