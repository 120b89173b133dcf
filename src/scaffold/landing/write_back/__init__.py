"""The marks of tasks that land: in the commit that lands them, whatever else happens to their list."""
