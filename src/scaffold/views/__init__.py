"""Read models of a run for every face: values and plain text, without terminal drawing."""
