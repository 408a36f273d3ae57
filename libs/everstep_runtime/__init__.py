"""What every process of Everstep shares: settings, logs, metrics, health, signals, leader lease."""
