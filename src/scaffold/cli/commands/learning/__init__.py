"""`learn`: what earlier work showed."""
