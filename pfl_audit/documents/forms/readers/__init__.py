"""Forms on disk, one format a module; the format is recognised by what lies in the folder."""
