"""Plan files: parsing with positions, typed fields, the file format."""
