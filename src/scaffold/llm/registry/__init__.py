"""Known models: names, context windows, features, prices."""
