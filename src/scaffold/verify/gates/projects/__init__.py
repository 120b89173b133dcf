"""What the files of a repository say about its gates and its set-up."""
