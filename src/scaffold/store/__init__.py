"""The one place of truth: named SQL, one repository per aggregate, events in the same transaction as the change."""

from scaffold.store.actions import OpenCompound
from scaffold.store.database import Store
from scaffold.store.runs import Wish

__all__ = ["OpenCompound", "Store", "Wish"]
