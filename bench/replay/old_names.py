"""Names that Python removed from its standard library since; old releases of projects import them.

Copied into a virtual environment together with a `.pth` file that imports it.
"""

import collections
import collections.abc
import fractions
import inspect
import math

for _name in collections.abc.__all__:
    if not hasattr(collections, _name):
        setattr(collections, _name, getattr(collections.abc, _name))
if not hasattr(fractions, "gcd"):
    fractions.gcd = math.gcd
if not hasattr(inspect, "getargspec"):
    inspect.getargspec = lambda function: inspect.getfullargspec(function)[:4]
